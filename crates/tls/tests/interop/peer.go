// The other end of a connection, with Go's crypto/tls: see go.rs.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) uint16 {
	parsed, err := strconv.ParseUint(text, 10, 16)
	check(err)
	return uint16(parsed)
}

// Arguments: client ADDRESS AUTHORITY CERTIFICATE VERSION SUITE CURVE, or server AUTHORITY CERTIFICATE VERSION AUTHENTICATION, the
// last four in numbers; 0 is what Go chooses.
func main() {
	arguments := os.Args[2:]
	var address string
	if os.Args[1] == "client" {
		address, arguments = arguments[0], arguments[1:]
	}
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(arguments[0])
	check(err)
	authorities.AppendCertsFromPEM(text)
	own, err := tls.LoadX509KeyPair(arguments[1], arguments[1])
	check(err)
	version := number(arguments[2])
	config := &tls.Config{
		Certificates: []tls.Certificate{own},
		MinVersion:   version,
		MaxVersion:   version,
	}
	if os.Args[1] == "server" {
		config.ClientCAs = authorities
		config.ClientAuth = tls.ClientAuthType(number(arguments[3]))
		serve(config)
		return
	}
	config.RootCAs = authorities
	config.ServerName = "a.example.com"
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if suite := number(arguments[3]); suite != 0 {
		config.CipherSuites = []uint16{suite}
	}
	if curve := number(arguments[4]); curve != 0 {
		config.CurvePreferences = []tls.CurveID{tls.CurveID(curve)}
	}
	ask(address, config)
	ask(address, config)
}

// Asks for something, and says what was answered and whether the session is one from before.
func ask(address string, config *tls.Config) {
	conn, err := tls.Dial("tcp", address, config)
	check(err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	check(err)
	answer, err := io.ReadAll(conn)
	check(err)
	fmt.Printf("%s %v\n", answer, conn.ConnectionState().DidResume)
}

// Answers each connection with what is known of it.
func serve(config *tls.Config) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("ACCEPT", listener.Addr())
	for {
		plain, err := listener.Accept()
		check(err)
		conn := tls.Server(plain, config)
		var request [1024]byte
		if _, err := conn.Read(request[:]); err == nil {
			state := conn.ConnectionState()
			fmt.Fprintf(conn, "resumed %v, certificates %d.", state.DidResume, len(state.PeerCertificates))
		}
		conn.Close()
	}
}
