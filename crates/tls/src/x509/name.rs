//! Distinguished names: reading, comparing, and the forms in which the reference writes them.

use super::oid;
use crate::der::{Malformed, Reader, Value, tag};

/// One attribute of a name. `set` counts relative distinguished names from 0: attributes of one number belong
/// together.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    pub set: usize,
    /// The content octets of its type.
    pub oid: &'a [u8],
    pub value: Value<'a>,
}

/// The attributes of a name, in order; `name` is a whole Name.
pub fn attributes(name: &[u8]) -> Result<Vec<Attribute<'_>>, Malformed> {
    let mut found = Vec::new();
    let mut outer = Reader::new(name);
    let mut sets = outer.inside(tag::SEQUENCE)?;
    outer.end()?;
    let mut set = 0;
    while !sets.is_empty() {
        let mut members = sets.inside(tag::SET)?;
        while !members.is_empty() {
            let mut attribute = members.inside(tag::SEQUENCE)?;
            let oid = attribute.expect(tag::OID)?.content;
            let value = attribute.value()?;
            attribute.end()?;
            found.push(Attribute { set, oid, value });
        }
        set += 1;
    }
    Ok(found)
}

/// The name as `/C=FR/O=Example/CN=host`, values as they are. A name that cannot be read is empty.
pub fn oneline(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for attribute in attributes(name).unwrap_or_default() {
        out.push(b'/');
        out.extend_from_slice(type_name(attribute.oid).as_bytes());
        out.push(b'=');
        out.extend_from_slice(attribute.value.content);
    }
    out
}

/// The name as `C = FR, O = Example`, as OpenSSL prints names inside of other texts.
pub fn spaced(name: &[u8]) -> String {
    let mut out = String::new();
    for attribute in attributes(name).unwrap_or_default() {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&format!("{} = ", type_name(attribute.oid)));
        match utf8(&attribute.value) {
            Some(text) => out.push_str(&String::from_utf8_lossy(&text)),
            None => attribute.value.content.iter().for_each(|byte| out.push_str(&format!("{byte:02X}"))),
        }
    }
    out
}

/// The value of the `occurrence`th attribute called `entry`, in whatever case: from 1 on from the front, from -1 on from the
/// back. None when there is no such attribute, and there is no 0th.
pub fn entry<'a>(name: &'a [u8], entry: &[u8], occurrence: i32) -> Option<&'a [u8]> {
    let all = attributes(name).ok()?;
    let mut named =
        all.iter().filter(|attribute| type_name(attribute.oid).as_bytes().eq_ignore_ascii_case(entry));
    let index = (occurrence.unsigned_abs() as usize).checked_sub(1)?;
    let found = if occurrence < 0 { named.rev().nth(index) } else { named.nth(index) };
    found.map(|attribute| attribute.value.content)
}

/// The last common name, which is the most specific one.
pub fn common_name(name: &[u8]) -> Option<&[u8]> {
    entry(name, b"CN", -1)
}

/// The name as RFC 2253 writes it: last set first, `+` within a set, special characters and bytes above 127 escaped.
pub fn rfc2253(name: &[u8]) -> String {
    let all = attributes(name).unwrap_or_default();
    let mut out = String::new();
    let mut last = None;
    let mut sets: Vec<&[Attribute<'_>]> = all.chunk_by(|a, b| a.set == b.set).collect();
    sets.reverse();
    for attribute in sets.into_iter().flatten() {
        match last {
            None => {}
            Some(set) if set == attribute.set => out.push('+'),
            Some(_) => out.push(','),
        }
        last = Some(attribute.set);
        escape_attribute(&mut out, attribute);
    }
    out
}

fn escape_attribute(out: &mut String, attribute: &Attribute<'_>) {
    out.push_str(&type_name(attribute.oid));
    out.push('=');
    let text = if oid::attribute(attribute.oid).is_some() { utf8(&attribute.value) } else { None };
    let Some(text) = text else {
        // A type without a name: the value's whole encoding, in hexadecimal.
        out.push('#');
        attribute.value.whole.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
        return;
    };
    let last = text.len().wrapping_sub(1);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' | b' ' if at == 0 => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' ' if at == last => out.push_str("\\ "),
            0x20..0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:02X}")),
        }
    }
}

/// A string value in UTF-8, whatever type of string it is; None when it is no string.
fn utf8(value: &Value<'_>) -> Option<Vec<u8>> {
    const UTF8_STRING: u8 = 0x0c;
    const PRINTABLE: u8 = 0x13;
    const TELETEX: u8 = 0x14;
    const IA5: u8 = 0x16;
    const NUMERIC: u8 = 0x12;
    const VISIBLE: u8 = 0x1a;
    const UNIVERSAL: u8 = 0x1c;
    const BMP: u8 = 0x1e;
    let from_scalars = |scalars: &mut dyn Iterator<Item = u32>| {
        scalars.map(char::from_u32).collect::<Option<String>>().map(String::into_bytes)
    };
    match value.tag {
        UTF8_STRING => Some(value.content.to_vec()),
        PRINTABLE | TELETEX | IA5 | NUMERIC | VISIBLE => {
            from_scalars(&mut value.content.iter().map(|byte| u32::from(*byte)))
        }
        BMP if value.content.len().is_multiple_of(2) => {
            from_scalars(&mut value.content.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))))
        }
        UNIVERSAL if value.content.len().is_multiple_of(4) => {
            from_scalars(&mut value.content.chunks(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])))
        }
        _ => None,
    }
}

fn type_name(id: &[u8]) -> std::borrow::Cow<'static, str> {
    match oid::attribute(id) {
        Some(name) => name.into(),
        None => oid::dotted(id).into(),
    }
}

/// A name reduced to what RFC 5280 section 7.1 compares: types, and values without regard to case, to outer spaces
/// and to the kind of string. Two names are the same when these are.
pub fn canonical(name: &[u8]) -> Vec<u8> {
    let Ok(all) = attributes(name) else { return name.to_vec() };
    let mut out = Vec::with_capacity(name.len());
    for attribute in all {
        out.extend_from_slice(&(attribute.set as u32).to_be_bytes());
        out.extend_from_slice(&(attribute.oid.len() as u32).to_be_bytes());
        out.extend_from_slice(attribute.oid);
        match utf8(&attribute.value) {
            None => push_counted(&mut out, attribute.value.whole),
            Some(text) => push_counted(&mut out, &folded(&text)),
        }
    }
    out
}

/// Whether two values are the same text, as names are compared.
pub fn same_value(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (utf8(a), utf8(b)) {
        (Some(a), Some(b)) => folded(&a) == folded(&b),
        _ => a.whole == b.whole,
    }
}

fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn folded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for word in text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend(word.iter().map(u8::to_ascii_lowercase));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der;

    /// Type, kind of string, value.
    type Member<'a> = (&'a [u8], u8, &'a [u8]);

    fn name(sets: &[&[Member<'_>]]) -> Vec<u8> {
        let mut body = Vec::new();
        for set in sets {
            let mut members = Vec::new();
            for (id, kind, value) in *set {
                let mut attribute = Vec::new();
                der::write(&mut attribute, tag::OID, id);
                der::write(&mut attribute, *kind, value);
                der::write(&mut members, tag::SEQUENCE, &attribute);
            }
            der::write(&mut body, tag::SET, &members);
        }
        let mut out = Vec::new();
        der::write(&mut out, tag::SEQUENCE, &body);
        out
    }

    const C: &[u8] = b"\x55\x04\x06";
    const OU: &[u8] = b"\x55\x04\x0b";
    const CN: &[u8] = oid::COMMON_NAME;

    #[test]
    fn forms_of_a_name() {
        let name = name(&[
            &[(C, 0x13, b"FR")],
            &[(OU, 0x0c, b"one"), (OU, 0x0c, b"two")],
            &[(b"\x53\x04\x05", 0x0c, b"foo")],
            &[(CN, 0x0c, "#Île, \"x\" ".as_bytes())],
        ]);
        assert_eq!(oneline(&name), "/C=FR/OU=one/OU=two/2.3.4.5=foo/CN=#Île, \"x\" ".as_bytes());
        assert_eq!(rfc2253(&name), r#"CN=\#\C3\8Ele\, \"x\"\ ,2.3.4.5=#0C03666F6F,OU=one+OU=two,C=FR"#);
        for (occurrence, expected) in [(1, "one"), (2, "two"), (-1, "two"), (-2, "one")] {
            assert_eq!(entry(&name, b"OU", occurrence), Some(expected.as_bytes()));
        }
        assert_eq!(entry(&name, b"ou", 2), Some(&b"two"[..]));
        assert_eq!((entry(&name, b"OU", 3), entry(&name, b"OU", 0)), (None, None));
        assert_eq!(entry(&name, b"OU", i32::MIN), None);
        assert_eq!(entry(&name, b"2.3.4.5", 1), Some(&b"foo"[..]));
    }

    #[test]
    fn names_are_the_same_without_regard_to_case_spaces_and_kind() {
        let a = name(&[&[(CN, 0x0c, b" Root  CA")]]);
        let b = name(&[&[(CN, 0x13, b"root ca ")]]);
        let c = name(&[&[(CN, 0x1e, b"\0R\0O\0O\0T\0 \0C\0A")]]);
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(canonical(&a), canonical(&c));
        assert_ne!(canonical(&a), canonical(&name(&[&[(OU, 0x0c, b"Root CA")]])));
        assert_ne!(canonical(&a), canonical(&name(&[&[(CN, 0x0c, b"RootCA")]])));
    }
}
