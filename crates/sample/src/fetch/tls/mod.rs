//! Fetches of TLS, of both connections (manual section 7.3.4): of the session, of the certificates, of the ClientHello.

mod read;

use read::*;

use thalweg_tls::facts::{Facts, alternative_names};
use thalweg_tls::x509::Certificate;

use super::{FetchDef, SERVER_CONNECTION, SESSION};
use crate::args::ArgKind;
use crate::value::Type;

const FILTER: &[ArgKind] = &[ArgKind::Int];
const DN: &[ArgKind] = &[ArgKind::Str, ArgKind::Int, ArgKind::Str];

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new(
        "ssl_bc",
        Type::Bool,
        SERVER_CONNECTION,
        "whether the server's connection is encrypted",
        |_, cx, _| bool(tls(cx, Side::Server).is_some()),
    ),
    FetchDef::new(
        "ssl_bc_alg_keysize",
        Type::Int,
        SERVER_CONNECTION,
        "bits of the cipher's keys",
        |_, cx, _| int(agreed(cx, Side::Server)?.key_bits()),
    ),
    FetchDef::new(
        "ssl_bc_alpn",
        Type::Str,
        SERVER_CONNECTION,
        "the protocol that was agreed on",
        |_, cx, _| {
            let alpn = known(cx, Side::Server)?.alpn.clone();
            text(cx, alpn)
        },
    ),
    FetchDef::new("ssl_bc_cipher", Type::Str, SERVER_CONNECTION, "the cipher's name", |_, cx, _| {
        word(agreed(cx, Side::Server)?.cipher_name())
    }),
    FetchDef::new(
        "ssl_bc_client_early_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "CLIENT_EARLY_TRAFFIC_SECRET"),
    ),
    FetchDef::new(
        "ssl_bc_client_handshake_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "CLIENT_HANDSHAKE_TRAFFIC_SECRET"),
    ),
    FetchDef::new(
        "ssl_bc_client_random",
        Type::Bin,
        SERVER_CONNECTION,
        "the client's random bytes",
        |_, cx, _| {
            let bytes = agreed(cx, Side::Server)?.client_random.to_vec();
            binary(cx, Some(bytes))
        },
    ),
    FetchDef::new(
        "ssl_bc_client_traffic_secret_0",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "CLIENT_TRAFFIC_SECRET_0"),
    ),
    FetchDef::new(
        "ssl_bc_curve",
        Type::Str,
        SERVER_CONNECTION,
        "the curve that keys were agreed on with",
        |_, cx, _| word(agreed(cx, Side::Server)?.curve()),
    ),
    FetchDef::new(
        "ssl_bc_early_exporter_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "EARLY_EXPORTER_SECRET"),
    ),
    FetchDef::new("ssl_bc_err", Type::Int, SERVER_CONNECTION, "the error's number", |_, cx, _| {
        error(cx, Side::Server)
    }),
    FetchDef::new("ssl_bc_err_str", Type::Str, SERVER_CONNECTION, "the error in words", |_, cx, _| {
        error_text(cx, Side::Server)
    }),
    FetchDef::new(
        "ssl_bc_exporter_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "EXPORTER_SECRET"),
    ),
    FetchDef::new(
        "ssl_bc_is_resumed",
        Type::Bool,
        SERVER_CONNECTION,
        "whether it goes on with an earlier session",
        |_, cx, _| bool(known(cx, Side::Server).is_some_and(|known| known.resumed)),
    ),
    FetchDef::new(
        "ssl_bc_npn",
        Type::Str,
        SERVER_CONNECTION,
        "nothing: nobody speaks NPN any more",
        |_, cx, _| {
            let _ = cx;
            None
        },
    ),
    FetchDef::new("ssl_bc_protocol", Type::Str, SERVER_CONNECTION, "the version's name", |_, cx, _| {
        word(agreed(cx, Side::Server)?.protocol())
    }),
    FetchDef::new(
        "ssl_bc_server_handshake_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "SERVER_HANDSHAKE_TRAFFIC_SECRET"),
    ),
    FetchDef::new(
        "ssl_bc_server_random",
        Type::Bin,
        SERVER_CONNECTION,
        "the server's random bytes",
        |_, cx, _| {
            let bytes = agreed(cx, Side::Server)?.server_random.to_vec();
            binary(cx, Some(bytes))
        },
    ),
    FetchDef::new(
        "ssl_bc_server_traffic_secret_0",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Server, "SERVER_TRAFFIC_SECRET_0"),
    ),
    FetchDef::new("ssl_bc_session_id", Type::Bin, SERVER_CONNECTION, "the session's number", |_, cx, _| {
        let bytes = agreed(cx, Side::Server)?.session_id.clone();
        binary(cx, Some(bytes))
    }),
    FetchDef::new(
        "ssl_bc_session_key",
        Type::Bin,
        SERVER_CONNECTION,
        "the session's key up to TLS 1.2, if secrets are kept",
        |_, cx, _| {
            let key = known(cx, Side::Server)?.secret("CLIENT_RANDOM").map(<[u8]>::to_vec);
            binary(cx, key)
        },
    ),
    FetchDef::new("ssl_bc_sni", Type::Str, SERVER_CONNECTION, "the name that was asked for", |_, cx, _| {
        let name = known(cx, Side::Server)?.server_name.clone();
        text(cx, name)
    }),
    FetchDef::new(
        "ssl_bc_use_keysize",
        Type::Int,
        SERVER_CONNECTION,
        "bits that are used of them",
        |_, cx, _| int(agreed(cx, Side::Server)?.key_bits()),
    ),
    FetchDef::new(
        "ssl_c_ca_err",
        Type::Int,
        SESSION,
        "the first error of a certificate above it",
        |_, cx, _| int(known(cx, Side::Client)?.verdict.ca.0),
    ),
    FetchDef::new("ssl_c_ca_err_depth", Type::Int, SESSION, "and how far above", |_, cx, _| {
        int(known(cx, Side::Client)?.verdict.ca_depth)
    }),
    FetchDef::new(
        "ssl_c_chain_der",
        Type::Bin,
        SESSION,
        "all that came with the client's certificate",
        |_, cx, _| {
            let chain = known(cx, Side::Client).map(Facts::rest_der).filter(|chain| !chain.is_empty());
            binary(cx, chain)
        },
    ),
    FetchDef::new("ssl_c_der", Type::Bin, SESSION, "all of the client's certificate", |_, cx, _| {
        let der = certificate(cx, Whose::Client).map(|one| one.der().to_vec());
        binary(cx, der)
    }),
    FetchDef::new(
        "ssl_c_err",
        Type::Int,
        SESSION,
        "the first error of the client's certificate",
        |_, cx, _| int(known(cx, Side::Client)?.verdict.leaf.0),
    ),
    FetchDef::new(
        "ssl_c_i_dn",
        Type::Str,
        SESSION,
        "the issuer of the client's certificate",
        |args, cx, _| issuer(cx, args, Whose::Client),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_c_key_alg",
        Type::Str,
        SESSION,
        "the key's algorithm of the client's certificate",
        |_, cx, _| {
            let name = certificate(cx, Whose::Client).map(|one| one.key_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_c_notafter",
        Type::Str,
        SESSION,
        "the last moment of the client's certificate",
        |_, cx, _| {
            let time = certificate(cx, Whose::Client).map(Certificate::not_after_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_c_notbefore",
        Type::Str,
        SESSION,
        "the first moment of the client's certificate",
        |_, cx, _| {
            let time = certificate(cx, Whose::Client).map(Certificate::not_before_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_c_policies",
        Type::Str,
        SESSION,
        "the policies of the client's certificate",
        |args, cx, _| policies(cx, args),
    )
    .takes(0, &[ArgKind::Str]),
    FetchDef::new("ssl_c_r_dn", Type::Str, SESSION, "the name of the root above it", |args, cx, _| {
        root(cx, args)
    })
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_c_s_dn",
        Type::Str,
        SESSION,
        "the subject of the client's certificate",
        |args, cx, _| subject(cx, args, Whose::Client),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new("ssl_c_san", Type::Str, SESSION, "its alternative names", |_, cx, _| {
        let names = certificate(cx, Whose::Client).map(|one| alternative_names(one).into_bytes());
        text(cx, names.filter(|names| !names.is_empty()))
    }),
    FetchDef::new(
        "ssl_c_serial",
        Type::Bin,
        SESSION,
        "the serial number of the client's certificate",
        |_, cx, _| {
            let serial = certificate(cx, Whose::Client).map(|one| one.serial_digits().to_vec());
            binary(cx, serial)
        },
    ),
    FetchDef::new(
        "ssl_c_sha1",
        Type::Bin,
        SESSION,
        "the fingerprint of the client's certificate",
        |_, cx, _| {
            let digest = certificate(cx, Whose::Client).map(|one| one.sha1().to_vec());
            binary(cx, digest)
        },
    ),
    FetchDef::new(
        "ssl_c_sig_alg",
        Type::Str,
        SESSION,
        "the signature's algorithm of the client's certificate",
        |_, cx, _| {
            let name = certificate(cx, Whose::Client).map(|one| one.signature_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_c_used",
        Type::Bool,
        SESSION,
        "whether the session has a client's certificate",
        |_, cx, _| bool(known(cx, Side::Client)?.peer_certificate().is_some()),
    ),
    FetchDef::new(
        "ssl_c_verify",
        Type::Int,
        SESSION,
        "the result of the client's verification",
        |_, cx, _| int(known(cx, Side::Client)?.verdict.result.0),
    ),
    FetchDef::new(
        "ssl_c_version",
        Type::Int,
        SESSION,
        "the version of the client's certificate",
        |_, cx, _| int(certificate(cx, Whose::Client)?.version),
    ),
    FetchDef::new(
        "ssl_f_der",
        Type::Bin,
        SESSION,
        "all of the certificate that was shown to the client",
        |_, cx, _| {
            let der = certificate(cx, Whose::Own).map(|one| one.der().to_vec());
            binary(cx, der)
        },
    ),
    FetchDef::new(
        "ssl_f_i_dn",
        Type::Str,
        SESSION,
        "the issuer of the certificate that was shown to the client",
        |args, cx, _| issuer(cx, args, Whose::Own),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_f_key_alg",
        Type::Str,
        SESSION,
        "the key's algorithm of the certificate that was shown to the client",
        |_, cx, _| {
            let name = certificate(cx, Whose::Own).map(|one| one.key_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_f_notafter",
        Type::Str,
        SESSION,
        "the last moment of the certificate that was shown to the client",
        |_, cx, _| {
            let time = certificate(cx, Whose::Own).map(Certificate::not_after_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_f_notbefore",
        Type::Str,
        SESSION,
        "the first moment of the certificate that was shown to the client",
        |_, cx, _| {
            let time = certificate(cx, Whose::Own).map(Certificate::not_before_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_f_s_dn",
        Type::Str,
        SESSION,
        "the subject of the certificate that was shown to the client",
        |args, cx, _| subject(cx, args, Whose::Own),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_f_serial",
        Type::Bin,
        SESSION,
        "the serial number of the certificate that was shown to the client",
        |_, cx, _| {
            let serial = certificate(cx, Whose::Own).map(|one| one.serial_digits().to_vec());
            binary(cx, serial)
        },
    ),
    FetchDef::new(
        "ssl_f_sha1",
        Type::Bin,
        SESSION,
        "the fingerprint of the certificate that was shown to the client",
        |_, cx, _| {
            let digest = certificate(cx, Whose::Own).map(|one| one.sha1().to_vec());
            binary(cx, digest)
        },
    ),
    FetchDef::new(
        "ssl_f_sig_alg",
        Type::Str,
        SESSION,
        "the signature's algorithm of the certificate that was shown to the client",
        |_, cx, _| {
            let name = certificate(cx, Whose::Own).map(|one| one.signature_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_f_version",
        Type::Int,
        SESSION,
        "the version of the certificate that was shown to the client",
        |_, cx, _| int(certificate(cx, Whose::Own)?.version),
    ),
    FetchDef::new(
        "ssl_fc",
        Type::Bool,
        SESSION,
        "whether the client's connection is encrypted",
        |_, cx, _| bool(tls(cx, Side::Client).is_some()),
    ),
    FetchDef::new("ssl_fc_alg_keysize", Type::Int, SESSION, "bits of the cipher's keys", |_, cx, _| {
        int(agreed(cx, Side::Client)?.key_bits())
    }),
    FetchDef::new("ssl_fc_alpn", Type::Str, SESSION, "the protocol that was agreed on", |_, cx, _| {
        let alpn = known(cx, Side::Client)?.alpn.clone();
        text(cx, alpn)
    }),
    FetchDef::new("ssl_fc_cipher", Type::Str, SESSION, "the cipher's name", |_, cx, _| {
        word(agreed(cx, Side::Client)?.cipher_name())
    }),
    FetchDef::new(
        "ssl_fc_cipherlist_bin",
        Type::Str,
        SESSION,
        "the ciphers of the ClientHello",
        |args, cx, _| {
            let list = list(cx, args, |hello| &hello.ciphers);
            text(cx, list)
        },
    )
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_cipherlist_hex", Type::Bin, SESSION, "the same in hexadecimal", |args, cx, _| {
        let list = list(cx, args, |hello| &hello.ciphers);
        let hex = list.map(|list| list.iter().flat_map(|b| format!("{b:02X}").into_bytes()).collect());
        binary(cx, hex)
    })
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_cipherlist_str", Type::Str, SESSION, "the same by name", |args, cx, _| {
        cipher_text(cx, args)
    })
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_cipherlist_xxh", Type::Int, SESSION, "a digest of the same", |_, cx, _| {
        let digest = xxhash_rust::xxh64::xxh64(&hello(cx)?.ciphers, 0);
        int(digest.cast_signed())
    }),
    FetchDef::new(
        "ssl_fc_client_early_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "CLIENT_EARLY_TRAFFIC_SECRET"),
    ),
    FetchDef::new(
        "ssl_fc_client_handshake_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "CLIENT_HANDSHAKE_TRAFFIC_SECRET"),
    ),
    FetchDef::new("ssl_fc_client_random", Type::Bin, SESSION, "the client's random bytes", |_, cx, _| {
        let bytes = agreed(cx, Side::Client)?.client_random.to_vec();
        binary(cx, Some(bytes))
    }),
    FetchDef::new(
        "ssl_fc_client_traffic_secret_0",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "CLIENT_TRAFFIC_SECRET_0"),
    ),
    FetchDef::new(
        "ssl_fc_crtname",
        Type::Str,
        SESSION,
        "the name of the certificate that was shown",
        |_, cx, _| {
            let name = known(cx, Side::Client)?.own_name.as_ref().map(|name| name.as_bytes().to_vec());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_fc_curve",
        Type::Str,
        SESSION,
        "the curve that keys were agreed on with",
        |_, cx, _| word(agreed(cx, Side::Client)?.curve()),
    ),
    FetchDef::new(
        "ssl_fc_early_exporter_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "EARLY_EXPORTER_SECRET"),
    ),
    FetchDef::new(
        "ssl_fc_early_rcvd",
        Type::Bool,
        SESSION,
        "whether the client sent early data",
        |_, cx, _| bool(known(cx, Side::Client)?.early_bytes > 0),
    ),
    FetchDef::new(
        "ssl_fc_ecformats_bin",
        Type::Str,
        SESSION,
        "the forms of points of the ClientHello",
        |_, cx, _| {
            let list = Some(hello(cx)?.point_formats.clone()).filter(|list| !list.is_empty());
            text(cx, list)
        },
    ),
    FetchDef::new("ssl_fc_eclist_bin", Type::Str, SESSION, "the curves of the ClientHello", |args, cx, _| {
        let list = list(cx, args, |hello| &hello.groups);
        text(cx, list)
    })
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_err", Type::Int, SESSION, "the error's number", |_, cx, _| error(cx, Side::Client)),
    FetchDef::new("ssl_fc_err_str", Type::Str, SESSION, "the error in words", |_, cx, _| {
        error_text(cx, Side::Client)
    }),
    FetchDef::new(
        "ssl_fc_exporter_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "EXPORTER_SECRET"),
    ),
    FetchDef::new(
        "ssl_fc_extlist_bin",
        Type::Str,
        SESSION,
        "the extensions of the ClientHello",
        |args, cx, _| {
            let list = list(cx, args, |hello| &hello.extensions);
            text(cx, list)
        },
    )
    .takes(0, FILTER),
    FetchDef::new(
        "ssl_fc_has_crt",
        Type::Bool,
        SESSION,
        "whether the client showed a certificate in this handshake",
        |_, cx, _| {
            bool(known(cx, Side::Client)?.peer_certificate().is_some() && !known(cx, Side::Client)?.resumed)
        },
    ),
    FetchDef::new(
        "ssl_fc_has_early",
        Type::Bool,
        SESSION,
        "whether the client sent early data and its handshake is not done: what is processed may be a replay",
        |_, cx, _| {
            known(cx, Side::Client)?;
            bool(cx.session.rare().is_early)
        },
    ),
    FetchDef::new(
        "ssl_fc_has_sni",
        Type::Bool,
        SESSION,
        "whether the client asked for a name",
        |_, cx, _| bool(known(cx, Side::Client).is_some_and(|known| known.server_name.is_some())),
    ),
    FetchDef::new(
        "ssl_fc_is_resumed",
        Type::Bool,
        SESSION,
        "whether it goes on with an earlier session",
        |_, cx, _| bool(known(cx, Side::Client).is_some_and(|known| known.resumed)),
    ),
    FetchDef::new("ssl_fc_npn", Type::Str, SESSION, "nothing: nobody speaks NPN any more", |_, cx, _| {
        let _ = cx;
        None
    }),
    FetchDef::new("ssl_fc_protocol", Type::Str, SESSION, "the version's name", |_, cx, _| {
        word(agreed(cx, Side::Client)?.protocol())
    }),
    FetchDef::new(
        "ssl_fc_protocol_hello_id",
        Type::Int,
        SESSION,
        "the version in the ClientHello",
        |_, cx, _| int(hello(cx)?.version),
    ),
    FetchDef::new(
        "ssl_fc_server_handshake_traffic_secret",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "SERVER_HANDSHAKE_TRAFFIC_SECRET"),
    ),
    FetchDef::new("ssl_fc_server_random", Type::Bin, SESSION, "the server's random bytes", |_, cx, _| {
        let bytes = agreed(cx, Side::Client)?.server_random.to_vec();
        binary(cx, Some(bytes))
    }),
    FetchDef::new(
        "ssl_fc_server_traffic_secret_0",
        Type::Str,
        SESSION,
        "a secret for key logs, if secrets are kept",
        |_, cx, _| secret(cx, Side::Client, "SERVER_TRAFFIC_SECRET_0"),
    ),
    FetchDef::new("ssl_fc_session_id", Type::Bin, SESSION, "the session's number", |_, cx, _| {
        let bytes = agreed(cx, Side::Client)?.session_id.clone();
        binary(cx, Some(bytes))
    }),
    FetchDef::new(
        "ssl_fc_session_key",
        Type::Bin,
        SESSION,
        "the session's key up to TLS 1.2, if secrets are kept",
        |_, cx, _| {
            let key = known(cx, Side::Client)?.secret("CLIENT_RANDOM").map(<[u8]>::to_vec);
            binary(cx, key)
        },
    ),
    FetchDef::new(
        "ssl_fc_sigalgs_bin",
        Type::Bin,
        SESSION,
        "the signatures of the ClientHello",
        |args, cx, _| {
            let list = list(cx, args, |hello| &hello.schemes);
            binary(cx, list)
        },
    )
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_sni", Type::Str, SESSION, "the name that was asked for", |_, cx, _| {
        let name = known(cx, Side::Client)?.server_name.clone();
        text(cx, name)
    }),
    FetchDef::new(
        "ssl_fc_supported_versions_bin",
        Type::Bin,
        SESSION,
        "the versions of the ClientHello",
        |args, cx, _| {
            let list = list(cx, args, |hello| &hello.versions);
            binary(cx, list)
        },
    )
    .takes(0, FILTER),
    FetchDef::new("ssl_fc_use_keysize", Type::Int, SESSION, "bits that are used of them", |_, cx, _| {
        int(agreed(cx, Side::Client)?.key_bits())
    }),
    FetchDef::new(
        "ssl_s_chain_der",
        Type::Bin,
        SESSION,
        "all that came with the server's certificate",
        |_, cx, _| {
            let chain = known(cx, Side::Server).map(Facts::chain_der).filter(|chain| !chain.is_empty());
            binary(cx, chain)
        },
    ),
    FetchDef::new("ssl_s_der", Type::Bin, SESSION, "all of the server's certificate", |_, cx, _| {
        let der = certificate(cx, Whose::Server).map(|one| one.der().to_vec());
        binary(cx, der)
    }),
    FetchDef::new(
        "ssl_s_i_dn",
        Type::Str,
        SESSION,
        "the issuer of the server's certificate",
        |args, cx, _| issuer(cx, args, Whose::Server),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_s_key_alg",
        Type::Str,
        SESSION,
        "the key's algorithm of the server's certificate",
        |_, cx, _| {
            let name = certificate(cx, Whose::Server).map(|one| one.key_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_s_notafter",
        Type::Str,
        SESSION,
        "the last moment of the server's certificate",
        |_, cx, _| {
            let time = certificate(cx, Whose::Server).map(Certificate::not_after_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_s_notbefore",
        Type::Str,
        SESSION,
        "the first moment of the server's certificate",
        |_, cx, _| {
            let time = certificate(cx, Whose::Server).map(Certificate::not_before_short);
            text(cx, time)
        },
    ),
    FetchDef::new(
        "ssl_s_s_dn",
        Type::Str,
        SESSION,
        "the subject of the server's certificate",
        |args, cx, _| subject(cx, args, Whose::Server),
    )
    .takes(0, DN)
    .checked(check_dn),
    FetchDef::new(
        "ssl_s_serial",
        Type::Bin,
        SESSION,
        "the serial number of the server's certificate",
        |_, cx, _| {
            let serial = certificate(cx, Whose::Server).map(|one| one.serial_digits().to_vec());
            binary(cx, serial)
        },
    ),
    FetchDef::new(
        "ssl_s_sha1",
        Type::Bin,
        SESSION,
        "the fingerprint of the server's certificate",
        |_, cx, _| {
            let digest = certificate(cx, Whose::Server).map(|one| one.sha1().to_vec());
            binary(cx, digest)
        },
    ),
    FetchDef::new(
        "ssl_s_sig_alg",
        Type::Str,
        SESSION,
        "the signature's algorithm of the server's certificate",
        |_, cx, _| {
            let name = certificate(cx, Whose::Server).map(|one| one.signature_algorithm_name().into_bytes());
            text(cx, name)
        },
    ),
    FetchDef::new(
        "ssl_s_version",
        Type::Int,
        SESSION,
        "the version of the server's certificate",
        |_, cx, _| int(certificate(cx, Whose::Server)?.version),
    ),
];
