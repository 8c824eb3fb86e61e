//! The numbers and names of verification errors: OpenSSL's, which configurations and logs use (`ca-ignore-err`,
//! `ssl_c_verify`, `x509_v_err_str`).

/// Number and name, in the order of the numbers.
const TABLE: &[(u16, &str)] = &[
    (0, "X509_V_OK"),
    (1, "X509_V_ERR_UNSPECIFIED"),
    (2, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT"),
    (3, "X509_V_ERR_UNABLE_TO_GET_CRL"),
    (4, "X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE"),
    (5, "X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE"),
    (6, "X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY"),
    (7, "X509_V_ERR_CERT_SIGNATURE_FAILURE"),
    (8, "X509_V_ERR_CRL_SIGNATURE_FAILURE"),
    (9, "X509_V_ERR_CERT_NOT_YET_VALID"),
    (10, "X509_V_ERR_CERT_HAS_EXPIRED"),
    (11, "X509_V_ERR_CRL_NOT_YET_VALID"),
    (12, "X509_V_ERR_CRL_HAS_EXPIRED"),
    (13, "X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD"),
    (14, "X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD"),
    (15, "X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD"),
    (16, "X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD"),
    (17, "X509_V_ERR_OUT_OF_MEM"),
    (18, "X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT"),
    (19, "X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN"),
    (20, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY"),
    (21, "X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE"),
    (22, "X509_V_ERR_CERT_CHAIN_TOO_LONG"),
    (23, "X509_V_ERR_CERT_REVOKED"),
    (24, "X509_V_ERR_NO_ISSUER_PUBLIC_KEY"),
    (25, "X509_V_ERR_PATH_LENGTH_EXCEEDED"),
    (26, "X509_V_ERR_INVALID_PURPOSE"),
    (27, "X509_V_ERR_CERT_UNTRUSTED"),
    (28, "X509_V_ERR_CERT_REJECTED"),
    (29, "X509_V_ERR_SUBJECT_ISSUER_MISMATCH"),
    (30, "X509_V_ERR_AKID_SKID_MISMATCH"),
    (31, "X509_V_ERR_AKID_ISSUER_SERIAL_MISMATCH"),
    (32, "X509_V_ERR_KEYUSAGE_NO_CERTSIGN"),
    (33, "X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER"),
    (34, "X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION"),
    (35, "X509_V_ERR_KEYUSAGE_NO_CRL_SIGN"),
    (36, "X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION"),
    (37, "X509_V_ERR_INVALID_NON_CA"),
    (38, "X509_V_ERR_PROXY_PATH_LENGTH_EXCEEDED"),
    (39, "X509_V_ERR_KEYUSAGE_NO_DIGITAL_SIGNATURE"),
    (40, "X509_V_ERR_PROXY_CERTIFICATES_NOT_ALLOWED"),
    (41, "X509_V_ERR_INVALID_EXTENSION"),
    (42, "X509_V_ERR_INVALID_POLICY_EXTENSION"),
    (43, "X509_V_ERR_NO_EXPLICIT_POLICY"),
    (44, "X509_V_ERR_DIFFERENT_CRL_SCOPE"),
    (45, "X509_V_ERR_UNSUPPORTED_EXTENSION_FEATURE"),
    (46, "X509_V_ERR_UNNESTED_RESOURCE"),
    (47, "X509_V_ERR_PERMITTED_VIOLATION"),
    (48, "X509_V_ERR_EXCLUDED_VIOLATION"),
    (49, "X509_V_ERR_SUBTREE_MINMAX"),
    (50, "X509_V_ERR_APPLICATION_VERIFICATION"),
    (51, "X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE"),
    (52, "X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX"),
    (53, "X509_V_ERR_UNSUPPORTED_NAME_SYNTAX"),
    (54, "X509_V_ERR_CRL_PATH_VALIDATION_ERROR"),
    (55, "X509_V_ERR_PATH_LOOP"),
    (56, "X509_V_ERR_SUITE_B_INVALID_VERSION"),
    (57, "X509_V_ERR_SUITE_B_INVALID_ALGORITHM"),
    (58, "X509_V_ERR_SUITE_B_INVALID_CURVE"),
    (59, "X509_V_ERR_SUITE_B_INVALID_SIGNATURE_ALGORITHM"),
    (60, "X509_V_ERR_SUITE_B_LOS_NOT_ALLOWED"),
    (61, "X509_V_ERR_SUITE_B_CANNOT_SIGN_P_384_WITH_P_256"),
    (62, "X509_V_ERR_HOSTNAME_MISMATCH"),
    (63, "X509_V_ERR_EMAIL_MISMATCH"),
    (64, "X509_V_ERR_IP_ADDRESS_MISMATCH"),
    (65, "X509_V_ERR_DANE_NO_MATCH"),
    (66, "X509_V_ERR_EE_KEY_TOO_SMALL"),
    (67, "X509_V_ERR_CA_KEY_TOO_SMALL"),
    (68, "X509_V_ERR_CA_MD_TOO_WEAK"),
    (69, "X509_V_ERR_INVALID_CALL"),
    (70, "X509_V_ERR_STORE_LOOKUP"),
    (71, "X509_V_ERR_NO_VALID_SCTS"),
    (72, "X509_V_ERR_PROXY_SUBJECT_NAME_VIOLATION"),
    (73, "X509_V_ERR_OCSP_VERIFY_NEEDED"),
    (74, "X509_V_ERR_OCSP_VERIFY_FAILED"),
    (75, "X509_V_ERR_OCSP_CERT_UNKNOWN"),
    (76, "X509_V_ERR_UNSUPPORTED_SIGNATURE_ALGORITHM"),
    (77, "X509_V_ERR_SIGNATURE_ALGORITHM_MISMATCH"),
    (78, "X509_V_ERR_SIGNATURE_ALGORITHM_INCONSISTENCY"),
    (79, "X509_V_ERR_INVALID_CA"),
    (80, "X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA"),
    (81, "X509_V_ERR_PATHLEN_WITHOUT_KU_KEY_CERT_SIGN"),
    (82, "X509_V_ERR_KU_KEY_CERT_SIGN_INVALID_FOR_NON_CA"),
    (83, "X509_V_ERR_ISSUER_NAME_EMPTY"),
    (84, "X509_V_ERR_SUBJECT_NAME_EMPTY"),
    (85, "X509_V_ERR_MISSING_AUTHORITY_KEY_IDENTIFIER"),
    (86, "X509_V_ERR_MISSING_SUBJECT_KEY_IDENTIFIER"),
    (87, "X509_V_ERR_EMPTY_SUBJECT_ALT_NAME"),
    (88, "X509_V_ERR_EMPTY_SUBJECT_SAN_NOT_CRITICAL"),
    (89, "X509_V_ERR_CA_BCONS_NOT_CRITICAL"),
    (90, "X509_V_ERR_AUTHORITY_KEY_IDENTIFIER_CRITICAL"),
    (91, "X509_V_ERR_SUBJECT_KEY_IDENTIFIER_CRITICAL"),
    (92, "X509_V_ERR_CA_CERT_MISSING_KEY_USAGE"),
    (93, "X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3"),
    (94, "X509_V_ERR_EC_KEY_EXPLICIT_PARAMS"),
];

/// An error of a verification, by OpenSSL's number; 0 is success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

/// The errors that are found here.
impl Code {
    pub const OK: Code = Code(0);
    pub const NO_ISSUER: Code = Code(2);
    pub const NO_CRL: Code = Code(3);
    pub const BAD_SIGNATURE: Code = Code(7);
    pub const BAD_CRL_SIGNATURE: Code = Code(8);
    pub const NOT_YET_VALID: Code = Code(9);
    pub const EXPIRED: Code = Code(10);
    pub const CRL_NOT_YET_VALID: Code = Code(11);
    pub const CRL_EXPIRED: Code = Code(12);
    pub const SELF_SIGNED_LEAF: Code = Code(18);
    pub const SELF_SIGNED_IN_CHAIN: Code = Code(19);
    pub const NO_LOCAL_ISSUER: Code = Code(20);
    pub const UNVERIFIED_LEAF: Code = Code(21);
    pub const CHAIN_TOO_LONG: Code = Code(22);
    pub const REVOKED: Code = Code(23);
    pub const PATH_TOO_LONG: Code = Code(25);
    pub const WRONG_PURPOSE: Code = Code(26);
    pub const UNKNOWN_CRITICAL: Code = Code(34);
    pub const NO_CRL_SIGN: Code = Code(35);
    pub const UNKNOWN_CRITICAL_CRL: Code = Code(36);
    pub const NOT_PERMITTED: Code = Code(47);
    pub const EXCLUDED: Code = Code(48);
    pub const UNKNOWN_CONSTRAINT: Code = Code(51);
    pub const BAD_CONSTRAINT: Code = Code(52);
    pub const WRONG_HOST: Code = Code(62);
    pub const WEAK_LEAF_KEY: Code = Code(66);
    pub const WEAK_CA_KEY: Code = Code(67);
    pub const WEAK_DIGEST: Code = Code(68);
    pub const NOT_STAPLED: Code = Code(73);
    pub const STAPLE_UNFIT: Code = Code(74);
    pub const UNKNOWN_SIGNATURE: Code = Code(76);
    pub const INVALID_CA: Code = Code(79);

    /// Its name, `X509_V_ERR_CERT_HAS_EXPIRED` for example; None for a number without one.
    pub fn name(self) -> Option<&'static str> {
        TABLE.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// The error called `text`: a number, or a name with or without its prefix in any case that OpenSSL writes.
    pub fn of(text: &str) -> Option<Code> {
        if let Ok(number) = text.parse::<u16>() {
            return (number < IGNORE_MAX).then_some(Code(number));
        }
        TABLE.iter().find(|(_, name)| *name == text).map(|(number, _)| Code(*number))
    }
}

/// Numbers below this one can be ignored; the reference knows as many.
const IGNORE_MAX: u16 = 256;

/// A set of errors: those that `crt-ignore-err` and `ca-ignore-err` name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored([u64; 4]);

/// A word in a list of errors that names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownError(pub String);

impl Ignored {
    /// Reads a list: `all`, or numbers and names with commas between them.
    pub fn parse(list: &str) -> Result<Ignored, UnknownError> {
        if list == "all" {
            return Ok(Ignored([u64::MAX; 4]));
        }
        let mut set = Ignored::default();
        for word in list.split(',') {
            let code = Code::of(word).ok_or_else(|| UnknownError(word.to_owned()))?;
            set.0[usize::from(code.0 >> 6)] |= 1 << (code.0 & 63);
        }
        Ok(set)
    }

    pub fn contains(&self, code: Code) -> bool {
        self.0.get(usize::from(code.0 >> 6)).is_some_and(|word| word & (1 << (code.0 & 63)) != 0)
    }

    pub fn is_empty(&self) -> bool {
        *self == Ignored::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_errors() {
        let set = Ignored::parse("10,X509_V_ERR_CERT_REVOKED").unwrap();
        assert!(set.contains(Code::EXPIRED) && set.contains(Code::REVOKED) && !set.contains(Code::NO_CRL));
        assert!(Ignored::parse("all").unwrap().contains(Code(94)));
        assert_eq!(Ignored::parse("10,all"), Err(UnknownError("all".into())));
        assert_eq!(Ignored::parse("foo"), Err(UnknownError("foo".into())));
        assert_eq!(Ignored::parse("256"), Err(UnknownError("256".into())));
        assert_eq!(Code(23).name(), Some("X509_V_ERR_CERT_REVOKED"));
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
