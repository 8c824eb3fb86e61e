//! What holds for every text. Used by the ordinary tests with drawn and mutated texts, and by the fuzz target with
//! whatever a fuzzer thinks of.

use thalweg_syntax::{
    AddressOptions, AddressParser, Diagnostics, Environment, Facts, Reader, RenderOptions, SourceMap,
    evaluate_condition, parse_size, parse_time_ms, split_arguments,
};

fn environment() -> Environment {
    let mut environment = Environment::empty();
    environment.set("A", "x y");
    environment.set("E", "");
    environment
}

/// Reads a text as a file to its end and checks every place.
pub fn read_all(text: &[u8]) {
    let mut sources = SourceMap::new();
    let file = sources.add("t.cfg", text.to_vec());
    let mut diagnostics = Diagnostics::new();
    let mut reader = Reader::new(Facts::default(), environment());
    reader.start_file(file);
    let mut last = 0;
    while let Some(line) = reader.next_line(&sources, &mut diagnostics) {
        assert!(line.number > last, "each line is given once");
        last = line.number;
        let source = sources.line(file, line.number).unwrap();
        assert!(!line.words.is_empty());
        let mut end = 0;
        for word in &line.words {
            assert!(!word.is_empty());
            assert!(word.span.start <= word.span.end && word.span.end as usize <= source.len());
            // Words are in order; those that one list made share its place.
            assert!(word.span.end >= end);
            end = word.span.end;
            for at in 0..=word.len() {
                let span = word.span_of(at..at + 1);
                assert!(span.start <= span.end && span.end as usize <= source.len());
            }
        }
    }
    diagnostics.render(&sources, RenderOptions { pid: 1, diagnostic_mode: true });
}

/// Reads a text in every way there is.
pub fn parse_all(text: &[u8]) {
    read_all(text);
    let _ = evaluate_condition(text, &Facts::default(), &environment());
    if let Ok(list) = split_arguments(text) {
        assert!(list.end <= text.len());
        for argument in &list.arguments {
            assert!(argument.range.end <= list.end && argument.text.len() <= argument.range.len());
        }
    }
    if let Ok(text) = std::str::from_utf8(text) {
        let environment = environment();
        let parser = AddressParser::new(&environment, &|_, _| None);
        for options in [
            AddressOptions::BIND,
            AddressOptions::SERVER,
            AddressOptions::LOG,
            AddressOptions::SOURCE,
            AddressOptions::HOST,
        ] {
            match parser.parse_list(text, &options) {
                Ok(addresses) => assert!(!addresses.is_empty()),
                Err(error) => assert!(error.range.end <= text.len()),
            }
        }
        let _ = parse_time_ms(text).map_err(|error| (error.range(text), error.message(text, "k")));
        let _ = parse_size(text, 1 << 32).map_err(|error| (error.range(text), error.message(text, "k", 1)));
    }
}
