//! Object identifiers: the ones that matter here, and the names the reference prints for them.

/// Attributes of names: content octets, short name, as OpenSSL's table has them.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (b"\x55\x04\x03", "CN"),
    (b"\x55\x04\x04", "SN"),
    (b"\x55\x04\x05", "serialNumber"),
    (b"\x55\x04\x06", "C"),
    (b"\x55\x04\x07", "L"),
    (b"\x55\x04\x08", "ST"),
    (b"\x55\x04\x09", "street"),
    (b"\x55\x04\x0a", "O"),
    (b"\x55\x04\x0b", "OU"),
    (b"\x55\x04\x0c", "title"),
    (b"\x55\x04\x0d", "description"),
    (b"\x55\x04\x0f", "businessCategory"),
    (b"\x55\x04\x11", "postalCode"),
    (b"\x55\x04\x12", "postOfficeBox"),
    (b"\x55\x04\x14", "telephoneNumber"),
    (b"\x55\x04\x29", "name"),
    (b"\x55\x04\x2a", "GN"),
    (b"\x55\x04\x2b", "initials"),
    (b"\x55\x04\x2c", "generationQualifier"),
    (b"\x55\x04\x2d", "x500UniqueIdentifier"),
    (b"\x55\x04\x2e", "dnQualifier"),
    (b"\x55\x04\x41", "pseudonym"),
    (b"\x55\x04\x61", "organizationIdentifier"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", "emailAddress"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x02", "unstructuredName"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x08", "unstructuredAddress"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01", "UID"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", "DC"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x01", "jurisdictionL"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x02", "jurisdictionST"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x03", "jurisdictionC"),
];

/// Algorithms of keys and signatures: content octets, and the short name of `ssl_c_sig_alg` and `ssl_c_key_alg`.
const ALGORITHMS: &[(&[u8], &str)] = &[
    (RSA_ENCRYPTION, "rsaEncryption"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", "RSA-MD5"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", "RSA-SHA1"),
    (RSA_PSS, "RSASSA-PSS"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", "RSA-SHA256"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", "RSA-SHA384"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", "RSA-SHA512"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0e", "RSA-SHA224"),
    (EC_PUBLIC_KEY, "id-ecPublicKey"),
    (b"\x2a\x86\x48\xce\x3d\x04\x01", "ecdsa-with-SHA1"),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x01", "ecdsa-with-SHA224"),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", "ecdsa-with-SHA256"),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", "ecdsa-with-SHA384"),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", "ecdsa-with-SHA512"),
    (b"\x2b\x65\x70", "ED25519"),
    (b"\x2b\x65\x71", "ED448"),
    (b"\x2a\x86\x48\xce\x38\x04\x01", "dsaEncryption"),
    (b"\x2a\x86\x48\xce\x38\x04\x03", "DSA-SHA1"),
    (b"\x60\x86\x48\x01\x65\x03\x04\x03\x02", "dsa_with_SHA256"),
];

pub const RSA_ENCRYPTION: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
pub const RSA_PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
pub const EC_PUBLIC_KEY: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
pub const COMMON_NAME: &[u8] = b"\x55\x04\x03";
pub const EMAIL_ADDRESS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01";

/// Extensions (RFC 5280 section 4.2 and others).
pub mod extension {
    pub const SUBJECT_KEY_ID: &[u8] = b"\x55\x1d\x0e";
    pub const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
    pub const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";
    pub const ISSUER_ALT_NAME: &[u8] = b"\x55\x1d\x12";
    pub const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
    pub const NAME_CONSTRAINTS: &[u8] = b"\x55\x1d\x1e";
    pub const CRL_DISTRIBUTION_POINTS: &[u8] = b"\x55\x1d\x1f";
    pub const POLICIES: &[u8] = b"\x55\x1d\x20";
    pub const POLICY_MAPPINGS: &[u8] = b"\x55\x1d\x21";
    pub const AUTHORITY_KEY_ID: &[u8] = b"\x55\x1d\x23";
    pub const POLICY_CONSTRAINTS: &[u8] = b"\x55\x1d\x24";
    pub const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
    pub const INHIBIT_ANY_POLICY: &[u8] = b"\x55\x1d\x36";
    pub const AUTHORITY_INFO_ACCESS: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x01\x01";
    pub const TLS_FEATURE: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x01\x18";
    pub const NETSCAPE_CERT_TYPE: &[u8] = b"\x60\x86\x48\x01\x86\xf8\x42\x01\x01";
    pub const ISSUING_DISTRIBUTION_POINT: &[u8] = b"\x55\x1d\x1c";
    pub const CRL_REASON: &[u8] = b"\x55\x1d\x15";
    pub const DELTA_CRL: &[u8] = b"\x55\x1d\x1b";
    pub const CRL_NUMBER: &[u8] = b"\x55\x1d\x14";
}

/// Purposes of an extended key usage, and OCSP.
pub mod purpose {
    pub const SERVER_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x01";
    pub const CLIENT_AUTH: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x02";
    pub const OCSP_SIGNING: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x09";
    pub const ANY: &[u8] = b"\x55\x1d\x25\x00";
    pub const OCSP: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01";
    pub const OCSP_BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
}

/// The short name of an attribute of a name, `CN` for example, when it is a known one.
pub fn attribute(oid: &[u8]) -> Option<&'static str> {
    ATTRIBUTES.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

/// The short name of an algorithm, `RSA-SHA256` for example, when it is a known one.
pub fn algorithm(oid: &[u8]) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

/// The long name of a signature algorithm, as OpenSSL's texts have it.
pub fn long_algorithm(oid: &[u8]) -> String {
    match algorithm(oid) {
        Some("RSA-SHA256") => "sha256WithRSAEncryption".to_owned(),
        Some("RSA-SHA384") => "sha384WithRSAEncryption".to_owned(),
        Some("RSA-SHA512") => "sha512WithRSAEncryption".to_owned(),
        Some("RSA-SHA1") => "sha1WithRSAEncryption".to_owned(),
        Some(short) => short.to_owned(),
        None => dotted(oid),
    }
}

/// The dotted form of an identifier's content octets. Arcs beyond 64 bits end the text early: no such identifier is
/// in use, and a hostile one shall not cost more than its length.
pub fn dotted(oid: &[u8]) -> String {
    let mut out = String::new();
    let mut arc: u64 = 0;
    for byte in oid {
        let Some(shifted) = arc.checked_mul(128) else { break };
        arc = shifted | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if out.is_empty() {
            let top = (arc / 40).min(2);
            out = format!("{top}.{}", arc - top * 40);
        } else {
            out.push_str(&format!(".{arc}"));
        }
        arc = 0;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_in_dots() {
        assert_eq!(dotted(RSA_ENCRYPTION), "1.2.840.113549.1.1.1");
        assert_eq!(dotted(b"\x55\x04\x03"), "2.5.4.3");
        assert_eq!(dotted(b"\x88\x37\x01"), "2.999.1");
        assert_eq!(dotted(b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "1.2");
    }
}
