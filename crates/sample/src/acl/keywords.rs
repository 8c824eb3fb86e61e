//! Keywords that are a fetch with a matching method, and the ACLs that exist without being written.

use crate::pattern::Method;

/// A keyword that only ACLs know: a fetch with a matching method.
#[derive(Debug)]
pub struct Keyword {
    /// Its name.
    pub name: &'static str,
    /// The fetch it reads.
    pub fetch: &'static str,
    /// How the values are compared.
    pub method: Method,
}

impl Keyword {
    /// True when the method is part of the name, as in `path_beg`.
    pub fn suffixed(&self) -> bool {
        ["_beg", "_dir", "_dom", "_end", "_len", "_reg", "_sub"]
            .iter()
            .any(|suffix| self.name.ends_with(suffix))
    }
}

const fn keyword(name: &'static str, fetch: &'static str, method: Method) -> Keyword {
    Keyword { name, fetch, method }
}

/// All of them.
pub static KEYWORDS: &[Keyword] = &[
    keyword("base", "base", Method::Str),
    keyword("base_beg", "base", Method::Beg),
    keyword("base_dir", "base", Method::Dir),
    keyword("base_dom", "base", Method::Dom),
    keyword("base_end", "base", Method::End),
    keyword("base_len", "base", Method::Len),
    keyword("base_reg", "base", Method::Reg),
    keyword("base_sub", "base", Method::Sub),
    keyword("cook", "req.cook", Method::Str),
    keyword("cook_beg", "req.cook", Method::Beg),
    keyword("cook_dir", "req.cook", Method::Dir),
    keyword("cook_dom", "req.cook", Method::Dom),
    keyword("cook_end", "req.cook", Method::End),
    keyword("cook_len", "req.cook", Method::Len),
    keyword("cook_reg", "req.cook", Method::Reg),
    keyword("cook_sub", "req.cook", Method::Sub),
    keyword("hdr", "req.hdr", Method::Str),
    keyword("hdr_beg", "req.hdr", Method::Beg),
    keyword("hdr_dir", "req.hdr", Method::Dir),
    keyword("hdr_dom", "req.hdr", Method::Dom),
    keyword("hdr_end", "req.hdr", Method::End),
    keyword("hdr_len", "req.hdr", Method::Len),
    keyword("hdr_reg", "req.hdr", Method::Reg),
    keyword("hdr_sub", "req.hdr", Method::Sub),
    keyword("http_auth_group", "http_auth_group", Method::Str),
    keyword("method", "method", Method::Str),
    keyword("path", "path", Method::Str),
    keyword("path_beg", "path", Method::Beg),
    keyword("path_dir", "path", Method::Dir),
    keyword("path_dom", "path", Method::Dom),
    keyword("path_end", "path", Method::End),
    keyword("path_len", "path", Method::Len),
    keyword("path_reg", "path", Method::Reg),
    keyword("path_sub", "path", Method::Sub),
    keyword("payload", "req.payload", Method::Bin),
    keyword("payload_lv", "req.payload_lv", Method::Bin),
    keyword("req.ssl_ver", "req.ssl_ver", Method::Version),
    keyword("req_rdp_cookie", "req.rdp_cookie", Method::Str),
    keyword("req_rdp_cookie_cnt", "req.rdp_cookie_cnt", Method::Int),
    keyword("req_ssl_sni", "req.ssl_sni", Method::Str),
    keyword("req_ssl_ver", "req.ssl_ver", Method::Version),
    keyword("req_ver", "req.ver", Method::Str),
    keyword("resp_ver", "res.ver", Method::Str),
    keyword("scook", "res.cook", Method::Str),
    keyword("scook_beg", "res.cook", Method::Beg),
    keyword("scook_dir", "res.cook", Method::Dir),
    keyword("scook_dom", "res.cook", Method::Dom),
    keyword("scook_end", "res.cook", Method::End),
    keyword("scook_len", "res.cook", Method::Len),
    keyword("scook_reg", "res.cook", Method::Reg),
    keyword("scook_sub", "res.cook", Method::Sub),
    keyword("shdr", "res.hdr", Method::Str),
    keyword("shdr_beg", "res.hdr", Method::Beg),
    keyword("shdr_dir", "res.hdr", Method::Dir),
    keyword("shdr_dom", "res.hdr", Method::Dom),
    keyword("shdr_end", "res.hdr", Method::End),
    keyword("shdr_len", "res.hdr", Method::Len),
    keyword("shdr_reg", "res.hdr", Method::Reg),
    keyword("shdr_sub", "res.hdr", Method::Sub),
    keyword("ssl_fc_sni_end", "ssl_fc_sni", Method::End),
    keyword("ssl_fc_sni_reg", "ssl_fc_sni", Method::Reg),
    keyword("url", "url", Method::Str),
    keyword("url_beg", "url", Method::Beg),
    keyword("url_dir", "url", Method::Dir),
    keyword("url_dom", "url", Method::Dom),
    keyword("url_end", "url", Method::End),
    keyword("url_len", "url", Method::Len),
    keyword("url_reg", "url", Method::Reg),
    keyword("url_sub", "url", Method::Sub),
    keyword("urlp", "urlp", Method::Str),
    keyword("urlp_beg", "urlp", Method::Beg),
    keyword("urlp_dir", "urlp", Method::Dir),
    keyword("urlp_dom", "urlp", Method::Dom),
    keyword("urlp_end", "urlp", Method::End),
    keyword("urlp_len", "urlp", Method::Len),
    keyword("urlp_reg", "urlp", Method::Reg),
    keyword("urlp_sub", "urlp", Method::Sub),
];

/// The ACLs that need no definition (manual section 7.4).
pub static PREDEFINED: &[(&str, &[&str])] = &[
    ("FALSE", &["always_false"]),
    ("HTTP", &["req.proto_http"]),
    ("HTTP_1.0", &["req.ver", "1.0"]),
    ("HTTP_1.1", &["req.ver", "1.1"]),
    ("HTTP_2.0", &["req.ver", "2.0"]),
    ("HTTP_3.0", &["req.ver", "3.0"]),
    ("HTTP_CONTENT", &["req.hdr_val(content-length)", "gt", "0"]),
    ("HTTP_URL_ABS", &["url_reg", "^[^/:]*://"]),
    ("HTTP_URL_SLASH", &["url_beg", "/"]),
    ("HTTP_URL_STAR", &["url", "*"]),
    ("LOCALHOST", &["src", "127.0.0.1/8", "::1"]),
    ("METH_CONNECT", &["method", "CONNECT"]),
    ("METH_DELETE", &["method", "DELETE"]),
    ("METH_GET", &["method", "GET", "HEAD"]),
    ("METH_HEAD", &["method", "HEAD"]),
    ("METH_OPTIONS", &["method", "OPTIONS"]),
    ("METH_POST", &["method", "POST"]),
    ("METH_PUT", &["method", "PUT"]),
    ("METH_TRACE", &["method", "TRACE"]),
    ("RDP_COOKIE", &["req.rdp_cookie_cnt", "gt", "0"]),
    ("REQ_CONTENT", &["req.len", "gt", "0"]),
    ("TRUE", &["always_true"]),
    ("WAIT_END", &["wait_end"]),
];
