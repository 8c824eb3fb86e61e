//! Addresses: `ipmask`.

use super::ConverterDef;
use super::shape::entry;
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::cast::v6_to_v4;
use crate::context::Ctx;
use crate::value::{Sample, Type, Value};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The converters of this family.
pub static ADDRESS: &[ConverterDef] = &[entry(
    "ipmask",
    (Type::Addr, Type::Addr),
    ArgSpec::new(1, &[ArgKind::Mask4, ArgKind::Mask6]),
    None,
    ipmask,
    "An address without the bits that a mask clears.",
)];

/// An IPv6 address needs a mask of its own, unless there is an IPv4 address in it.
fn ipmask(args: &Args, sample: &mut Sample, _: &mut Ctx) -> bool {
    let Arg::Ip4(mask4) = *args.at(0) else { return false };
    let masked4 = |ip: Ipv4Addr| Value::Ip4(Ipv4Addr::from_bits(ip.to_bits() & mask4.to_bits()));
    sample.value = match (sample.value, args.at(1)) {
        (Value::Ip4(ip), _) => masked4(ip),
        (Value::Ip6(ip), Arg::Ip6(mask6)) if v6_to_v4(ip).is_none() => {
            Value::Ip6(Ipv6Addr::from_bits(ip.to_bits() & mask6.to_bits()))
        }
        (Value::Ip6(ip), _) => match v6_to_v4(ip) {
            Some(ip) => masked4(ip),
            None => return false,
        },
        _ => return false,
    };
    true
}
