//! The JSON twins of `show` commands: `show servers state json` (ours; RFC 8259).
//!
//! A command writes the lines that people and scripts know; with `json` as its last word they become one JSON document on
//! their way out, piece by piece, whatever their number. What its lines look like is the command's [`Shape`]. Where the
//! reference has a JSON form of its own (`show info`, `show stat`), that is what `json` means.

use std::borrow::Cow;

use thalweg_statistics::format::json_string;
use thalweg_syntax::carry::restore;
use thalweg_syntax::layout;

/// What the lines of an answer look like, and so what they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Rows below a line of columns that begins with `#`: objects. The last column takes the rest of its row; one called
    /// `name[n]` becomes an array; `(name)` stands above values between parentheses.
    Table,
    /// `name: value` or `name=value`: one object. A sum over threads, `6 [ 4 2 ]`, becomes an object of its own.
    Pairs,
    /// `0x1234: name=value ...`, on one line or several, and `# name: value, ...` of what they are in: objects.
    Records,
    /// `0x1234 key rest of the line`: objects.
    Entries,
    /// One value.
    Value,
    /// An array of lines.
    Lines,
    /// Documents that the command itself writes, one a line ([`Object`]): an array of them.
    Own,
    /// `~ server app/s1 weight 10 -> 50 # for people`, cut into words as lines of a configuration are: objects.
    Differences,
}

/// Turns lines into JSON as they come.
#[derive(Debug)]
pub struct Converter {
    shape: Shape,
    columns: Vec<String>,
    /// Columns are parted by commas, else by blanks.
    by_comma: bool,
    /// What was written before has to be followed by a comma.
    begun: bool,
    /// The fields of a record that may go on in the next line.
    record: Option<Vec<(String, String)>>,
}

impl Converter {
    pub fn new(shape: Shape) -> Converter {
        Converter { shape, columns: Vec::new(), by_comma: false, begun: false, record: None }
    }

    /// Turns what follows the last complete line into the end of the document.
    pub fn finish(mut self, rest: &str, out: &mut String) {
        rest.lines().for_each(|line| self.line(line, out));
        self.end_record(out);
        let (open, close) = self.frame();
        match (self.begun, self.shape) {
            (false, Shape::Value) => out.push_str("null"),
            (false, _) => out.push_str(open),
            (true, _) => {}
        }
        out.push_str(close);
        out.push('\n');
    }

    /// Appends what a line becomes, if it is complete with it.
    pub fn line(&mut self, line: &str, out: &mut String) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        match self.shape {
            Shape::Table => self.row(line, out),
            Shape::Pairs => self.pair(line, out),
            Shape::Records => self.record_line(line, out),
            Shape::Entries => {
                let mut parts = line.splitn(3, ' ');
                let mut fields = Vec::new();
                for name in ["id", "key", "value"] {
                    if let Some(value) = parts.next() {
                        fields.push((name.to_owned(), text(value)));
                    }
                }
                self.object(&fields, out);
            }
            Shape::Differences => self.difference(line, out),
            Shape::Own => {
                self.element(out);
                out.push_str(line);
            }
            Shape::Value | Shape::Lines => {
                self.element(out);
                out.push_str(&text(line));
            }
        }
    }

    fn row(&mut self, line: &str, out: &mut String) {
        if let Some(header) = line.strip_prefix('#') {
            let header = header.trim();
            self.by_comma = header.contains(',');
            self.columns =
                self.cells(header).into_iter().map(|name| name.trim_end_matches(':').to_owned()).collect();
            return;
        }
        // Before the columns there is a version, or nothing.
        let Some(last) = self.columns.len().checked_sub(1) else { return };
        let cells = self.cells(line);
        let mut fields = Vec::new();
        for (at, (column, cell)) in self.columns.iter().zip(&cells).enumerate() {
            let bare = |text: &str| {
                text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).map(str::to_owned)
            };
            let (name, cell) = if let Some((name, _)) = column.split_once('[') {
                let values: Vec<String> = cells[at..].iter().map(|cell| value(cell)).collect();
                (name.to_owned(), format!("[{}]", values.join(",")))
            } else if let (Some(name), Some(cell)) = (bare(column), bare(cell)) {
                (name, value(&cell))
            } else if at == last && !self.by_comma {
                (column.clone(), value(&cells[at..].join(" ")))
            } else {
                (column.clone(), value(cell))
            };
            // A column may be there for the sake of a separator.
            if !name.is_empty() && name != "-" {
                fields.push((name, cell));
            }
        }
        self.object(&fields, out);
    }

    fn cells<'l>(&self, line: &'l str) -> Vec<&'l str> {
        if self.by_comma { line.split(',').collect() } else { line.split_whitespace().collect() }
    }

    fn pair(&mut self, line: &str, out: &mut String) {
        let (name, rest) = line.split_once([':', '=']).unwrap_or((line, ""));
        self.element(out);
        out.push_str(&text(name.trim()));
        out.push(':');
        out.push_str(&sum(rest.trim()).unwrap_or_else(|| value(rest.trim())));
    }

    fn record_line(&mut self, line: &str, out: &mut String) {
        if let Some(title) = line.strip_prefix("# ") {
            self.end_record(out);
            let pairs = title.split(", ").filter_map(|pair| pair.split_once(':'));
            let fields: Vec<_> = pairs.map(|(name, word)| (name.to_owned(), value(word.trim()))).collect();
            return self.object(&fields, out);
        }
        let mut words = line.split_whitespace().peekable();
        if let Some(id) = words.next_if(|word| word.starts_with("0x") && word.ends_with(':')) {
            self.end_record(out);
            self.record = Some(vec![("id".to_owned(), text(id.trim_end_matches(':')))]);
        }
        let fields = self.record.get_or_insert_default();
        let mut rest = Vec::new();
        for word in words {
            match word.split_once('=').filter(|(name, _)| !name.contains('[')) {
                Some((name, word)) if !fields.iter().any(|(known, _)| known == name) => {
                    fields.push((name.to_owned(), value(word)));
                }
                _ => rest.push(word),
            }
        }
        if !rest.is_empty() {
            // What has no name of its own is kept as it is written.
            let more =
                format!("more{}", fields.iter().filter(|(name, _)| name.starts_with("more")).count() + 1);
            fields.push((more, text(&rest.join(" "))));
        }
    }

    fn difference(&mut self, line: &str, out: &mut String) {
        let Some(line) = layout::lines(line).pop() else { return };
        let mut fields = Vec::new();
        let mut add = |name: &str, word: &str| fields.push((name.to_owned(), value(word)));
        let how = match &*line.word(0) {
            "+" => "added",
            "-" => "removed",
            _ => "changed",
        };
        let arrow = line.words.iter().position(|word| word.raw == "->");
        // There is one `global`, and it has no name.
        let is_named = &*line.word(1) != "global";
        let rest = if is_named { 3 } else { 2 };
        add("change", how);
        add("what", &line.word(1));
        add("name", if is_named { line.word(2) } else { Cow::Borrowed("") }.as_ref());
        match arrow {
            Some(arrow) => {
                add("field", &line.word(rest));
                add("file", if arrow > rest + 1 { line.word(rest + 1) } else { Cow::Borrowed("") }.as_ref());
                add("now", &line.word(arrow + 1));
            }
            None => {
                let from = line.words.get(rest).map_or(line.text.len(), |word| word.start);
                add("line", &line.text[from..]);
            }
        }
        add("note", line.comment.trim_start_matches(['#', ' ']));
        self.object(&fields, out);
    }

    fn end_record(&mut self, out: &mut String) {
        if let Some(fields) = self.record.take() {
            self.object(&fields, out);
        }
    }

    fn object(&mut self, fields: &[(String, String)], out: &mut String) {
        self.element(out);
        let mut object = Object::default();
        for (name, value) in fields {
            object.field(name, value);
        }
        object.close(out);
    }

    /// What goes before each element.
    fn element(&mut self, out: &mut String) {
        if self.begun {
            out.push_str(",\n");
        } else {
            out.push_str(self.frame().0);
        }
        self.begun = true;
    }

    fn frame(&self) -> (&'static str, &'static str) {
        match self.shape {
            Shape::Pairs => ("{", "}"),
            Shape::Value => ("", ""),
            _ => ("[", "]"),
        }
    }
}

/// An object that is being written.
#[derive(Debug, Default)]
pub struct Object(String);

impl Object {
    /// A field whose value is JSON already.
    fn field(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        json_string(&mut self.0, name);
        self.0.push(':');
        self.0.push_str(value);
    }

    /// A field that is a text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Object {
        self.field(name, &text(value));
        self
    }

    /// A field that is a number, or nothing.
    pub fn number(&mut self, name: &str, value: Option<u64>) -> &mut Object {
        self.field(name, &value.map_or("null".to_owned(), |value| value.to_string()));
        self
    }

    /// Fields that are numbers.
    pub fn numbers<const N: usize>(&mut self, fields: [(&str, u64); N]) -> &mut Object {
        fields.iter().for_each(|&(name, value)| _ = self.number(name, Some(value)));
        self
    }

    /// A field that is a number if it looks like one, nothing for `-`, else a text.
    pub fn word(&mut self, name: &str, word: &str) -> &mut Object {
        self.field(name, &value(word));
        self
    }

    /// Appends it to the elements of an answer of the shape [`Shape::Own`].
    pub fn end(&mut self, out: &mut String) {
        std::mem::take(self).close(out);
        out.push('\n');
    }

    fn close(self, out: &mut String) {
        out.push_str(if self.0.is_empty() { "{" } else { &self.0 });
        out.push('}');
    }
}

/// A string; bytes that are not UTF-8 become U+FFFD.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json_string(&mut out, &String::from_utf8_lossy(&restore(text.as_bytes())));
    out
}

/// A number if it is written as one, nothing for `-`, else a string.
fn value(word: &str) -> String {
    match word.parse::<i64>() {
        _ if word == "-" => "null".to_owned(),
        Ok(number) if number.to_string() == word => word.to_owned(),
        _ => text(word),
    }
}

/// `6 [ 4 2 ]`: what all threads did, and each.
fn sum(words: &str) -> Option<String> {
    let (total, each) = words.strip_suffix(']')?.split_once('[')?;
    let each: Vec<String> = each.split_whitespace().map(value).collect();
    Some(format!("{{\"total\":{},\"threads\":[{}]}}", value(total.trim()), each.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(shape: Shape, lines: &str) -> String {
        let (mut converter, mut out) = (Converter::new(shape), String::new());
        let (complete, rest) = lines.split_at(lines.rfind('\n').map_or(0, |at| at + 1));
        complete.lines().for_each(|line| converter.line(line, &mut out));
        converter.finish(rest, &mut out);
        out
    }

    #[test]
    fn each_shape_becomes_a_document() {
        let table = "1\n# be_id (file) - n[2]\n3 (/a\"b) - 1 0\n4 () x -\n\n";
        assert_eq!(
            converted(Shape::Table, table),
            "[{\"be_id\":3,\"file\":\"/a\\\"b\",\"n\":[1,0]},\n{\"be_id\":4,\"file\":\"\",\"n\":[null]}]\n"
        );
        assert_eq!(
            converted(Shape::Table, "# a,b,\nx y,007,\n# id rest\n1 two words\n"),
            "[{\"a\":\"x y\",\"b\":\"007\"},\n{\"id\":1,\"rest\":\"two words\"}]\n"
        );
        assert_eq!(
            converted(Shape::Pairs, "A=b=c\nctxsw: 6 [ 4 2 ]\nnone:\n"),
            "{\"A\":\"b=c\",\n\"ctxsw\":{\"total\":6,\"threads\":[4,2]},\n\"none\":\"\"}\n"
        );
        assert_eq!(
            converted(Shape::Records, "0x1: a=1 b=x\n  0x2: a=- [old] b=2 a=3\n   c=4\n"),
            "[{\"id\":\"0x1\",\"a\":1,\"b\":\"x\"},\n{\"id\":\"0x2\",\"a\":null,\"b\":2,\"more1\":\"[old] a=3\",\"c\":4}]\n"
        );
        assert_eq!(
            converted(
                Shape::Records,
                "# table: t, type: ip, size:10, used:1\n0x1: key=::1 gpc(1)=2\n# table: u, used:0\n"
            ),
            "[{\"table\":\"t\",\"type\":\"ip\",\"size\":10,\"used\":1},\n{\"id\":\"0x1\",\"key\":\"::1\",\"gpc(1)\":2},\n\
             {\"table\":\"u\",\"used\":0}]\n"
        );
        assert_eq!(
            converted(Shape::Entries, "0x1 /a two words\n0x2 /b\n"),
            "[{\"id\":\"0x1\",\"key\":\"/a\",\"value\":\"two words\"},\n{\"id\":\"0x2\",\"key\":\"/b\"}]\n"
        );
        assert_eq!(converted(Shape::Lines, "a\tb\n c\n"), "[\"a\\u0009b\",\n\" c\"]\n");
        assert_eq!(converted(Shape::Value, "3.5\n"), "\"3.5\"\n");
        assert_eq!(
            converted(
                Shape::Differences,
                "~ server a/s weight 1 -> 5\n+ server a/t :80 check\n~ global maxconn -> 7 # 'why'\n"
            ),
            "[{\"change\":\"changed\",\"what\":\"server\",\"name\":\"a/s\",\"field\":\"weight\",\"file\":1,\"now\":5,\"note\":\"\"},\n\
             {\"change\":\"added\",\"what\":\"server\",\"name\":\"a/t\",\"line\":\":80 check\",\"note\":\"\"},\n\
             {\"change\":\"changed\",\"what\":\"global\",\"name\":\"\",\"field\":\"maxconn\",\"file\":\"\",\"now\":7,\"note\":\"'why'\"}]\n"
        );
    }

    #[test]
    fn nothing_is_a_document_too() {
        for (shape, document) in
            [(Shape::Table, "[]\n"), (Shape::Pairs, "{}\n"), (Shape::Value, "null\n"), (Shape::Lines, "[]\n")]
        {
            assert_eq!(converted(shape, ""), document);
        }
    }
}
