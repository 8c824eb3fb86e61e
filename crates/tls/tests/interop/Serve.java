// An HTTPS server of the Java runtime, which says who asks: see servers.rs. Arguments: authority, certificate with its key.
import com.sun.net.httpserver.*; import java.io.*; import java.net.*; import java.nio.file.*; import java.security.*; import java.security.cert.*;
import java.security.cert.Certificate; import java.security.spec.PKCS8EncodedKeySpec; import java.util.*; import javax.net.ssl.*;
public class Serve {
  static Certificate certificate(String file) throws Exception {
    return CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(file));
  }
  public static void main(String[] arguments) throws Exception {
    String text = Files.readString(Path.of(arguments[1]));
    String key = text.substring(text.indexOf("-----BEGIN PRIVATE KEY-----") + 27, text.indexOf("-----END PRIVATE KEY-----"));
    Certificate own = certificate(arguments[1]);
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    store.setKeyEntry("own", KeyFactory.getInstance(own.getPublicKey().getAlgorithm())
        .generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(key))), new char[0], new Certificate[] {own});
    KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
    keys.init(store, new char[0]);
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    trusted.setCertificateEntry("ca", certificate(arguments[0]));
    TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(context) {
      public void configure(HttpsParameters parameters) {
        SSLParameters wanted = context.getDefaultSSLParameters();
        wanted.setWantClientAuth(true);
        parameters.setSSLParameters(wanted);
      }
    });
    server.createContext("/", exchange -> {
      String who;
      try { who = ((HttpsExchange) exchange).getSSLSession().getPeerPrincipal().toString(); }
      catch (SSLPeerUnverifiedException e) { who = "nobody"; }
      byte[] answer = (exchange.getProtocol() + " from " + who + ".").getBytes();
      exchange.sendResponseHeaders(200, answer.length);
      exchange.getResponseBody().write(answer);
      exchange.close();
    });
    server.start();
    System.out.println("ACCEPT 127.0.0.1:" + server.getAddress().getPort());
  }
}
