//! Rules that were evaluated in an order of their own, wherever they stood.
//!
//! Up to 2.0 a proxy evaluated its `block` lines first, then `http-request` rules, then `req*` lines, and `reqadd` last.
//! All of them are `http-request` rules today, which are evaluated as they stand: where the old file has them in
//! another order, they change places.

use thalweg_syntax::layout::WrittenLine;

use crate::{Change, Kind, Piece};

/// A ruleset, and the turn of a rule in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    is_response: bool,
    turn: u8,
}

/// When the rule on a line was evaluated; `None` if it is none of these.
pub fn class_of(line: &WrittenLine<'_>) -> Option<Class> {
    let word = line.word(0);
    let (is_response, turn) = match &*word {
        "monitor-net" | "block" => (false, 0),
        "http-request" => (false, 1),
        "reqadd" => (false, 3),
        "http-response" => (true, 1),
        "rspadd" => (true, 3),
        // Not the backend's choice, which comes later.
        word if word.starts_with("req") && !word.ends_with("setbe") => (false, 2),
        word if word.starts_with("rsp") => (true, 2),
        _ => return None,
    };
    Some(Class { is_response, turn })
}

/// Lets the rules of a section change places where they must.
pub fn put_in_order(pieces: &mut Vec<Piece>, changes: &mut Vec<Change>) {
    // Rules under `.if` are from 2.4 or later, which has none of the others.
    if pieces.iter().any(|piece| piece.is_directive) {
        return;
    }
    for is_response in [false, true] {
        let wanted = |piece: &Piece| piece.class.is_some_and(|class| class.is_response == is_response);
        let turns: Vec<u8> =
            pieces.iter().filter(|piece| wanted(piece)).filter_map(|piece| Some(piece.class?.turn)).collect();
        if turns.is_sorted() {
            continue;
        }
        attach_comments(pieces, is_response);
        move_acls(pieces, is_response);
        let slots: Vec<usize> = (0..pieces.len()).filter(|slot| wanted(&pieces[*slot])).collect();
        let mut rules: Vec<(usize, Piece)> = Vec::with_capacity(slots.len());
        for slot in slots.iter().rev() {
            rules.push((*slot, pieces.remove(*slot)));
        }
        rules.reverse();
        let old: Vec<u32> = rules.iter().map(|(_, piece)| piece.number).collect();
        rules.sort_by_key(|(_, piece)| piece.class.map_or(0, |class| class.turn));
        for ((slot, before), (_, piece)) in slots.into_iter().zip(old).zip(rules) {
            if piece.number < before {
                changes.push(Change {
                    line: piece.number,
                    kind: Kind::Same,
                    text: format!(
                        "it was evaluated after rules that stand below it (block, http-request, req*, reqadd was the \
                         order): it is where line {before} was now"
                    ),
                });
            }
            pieces.insert(slot, piece);
        }
    }
}

/// Comments go with the rule below them.
fn attach_comments(pieces: &mut Vec<Piece>, is_response: bool) {
    let mut slot = 1;
    while slot < pieces.len() {
        let rule = pieces[slot].class.is_some_and(|class| class.is_response == is_response);
        if rule && pieces[slot - 1].comment {
            let comment = pieces.remove(slot - 1);
            slot -= 1;
            pieces[slot].lines.splice(0..0, comment.lines);
            // Another one may be above it.
            slot = slot.max(1);
        } else {
            slot += 1;
        }
    }
}

/// A rule that moves up must not come to stand above the conditions it names.
fn move_acls(pieces: &mut Vec<Piece>, is_response: bool) {
    let rule = |piece: &Piece| piece.class.is_some_and(|class| class.is_response == is_response);
    let Some(mut target) = pieces.iter().position(rule) else { return };
    let mut from = target;
    while from < pieces.len() {
        if pieces[from].is_acl {
            let acl = pieces.remove(from);
            pieces.insert(target, acl);
            target += 1;
        }
        from += 1;
    }
}
