//! Prints the ACL keywords, converters and fetches this program has, as `-dKacl`, `-dKcnv` and `-dKsmp` do.

fn main() {
    print!("{}", thalweg_sample::listing::acl_keywords());
    print!("{}", thalweg_sample::listing::converters());
    print!("{}", thalweg_sample::listing::fetches());
}
