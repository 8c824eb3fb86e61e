//! `userlist`: users, groups and passwords.

use std::sync::Arc;

use thalweg_syntax::{Line, Span};

use crate::build::Cx;
use crate::keyword::{Outcome, fail};
use crate::model::{Password, User, Userlist};

/// A userlist being read: groups may be named before they are declared.
pub(crate) struct UserlistDraft {
    pub list: Userlist,
    /// For each user, the groups it names; for each group, the users it names.
    user_groups: Vec<Vec<Arc<str>>>,
    group_users: Vec<Vec<Arc<str>>>,
    pub span: Span,
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<UserlistDraft, Box<thalweg_syntax::Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'userlist' expects <name> as arguments."));
    }
    crate::keyword::at_most(line, 1, 1)?;
    let name = cx.name(line.text(1));
    crate::keyword::legal_name(line)?;
    if cx.config.userlists.iter().any(|u| u.name == name) {
        cx.warn(line, 1, format!("ignoring duplicated userlist '{name}'."));
    }
    Ok(UserlistDraft {
        list: Userlist { name, users: Vec::new(), groups: Vec::new() },
        user_groups: Vec::new(),
        group_users: Vec::new(),
        span: line.span(),
    })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut UserlistDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "group" => group(cx, draft, line),
        "user" => user(cx, draft, line),
        other => {
            let near = thalweg_syntax::did_you_mean(other, ["user", "group"]);
            Err(crate::global::unknown(line, "userlist", near))
        }
    }
}

fn group(cx: &mut Cx<'_>, draft: &mut UserlistDraft, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'group' expects <name> as arguments."));
    }
    let name = cx.name(line.text(1));
    if draft.list.groups.contains(&name) {
        cx.warn(line, 1, format!("ignoring duplicated group '{name}' in userlist '{}'.", draft.list.name));
        return Ok(());
    }
    if line.words.len() > 4 {
        return Err(fail(line, 4, "'group' only supports 'users' option."));
    }
    let users = match line.text(2) {
        "" => Vec::new(),
        "users" => line.text(3).split(',').filter(|u| !u.is_empty()).map(|u| cx.name(u)).collect(),
        _ => return Err(fail(line, 2, "'group' only supports 'users' option.")),
    };
    draft.list.groups.push(name);
    draft.group_users.push(users);
    Ok(())
}

fn user(cx: &mut Cx<'_>, draft: &mut UserlistDraft, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'user' expects <name> as arguments."));
    }
    let name = cx.name(line.text(1));
    if draft.list.users.iter().any(|u| u.name == name) {
        cx.warn(line, 1, format!("ignoring duplicated user '{name}' in userlist '{}'.", draft.list.name));
        return Ok(());
    }
    let mut password = Password::Clear(Arc::from(""));
    let mut groups = Vec::new();
    let mut at = 2;
    while at < line.words.len() {
        let value = line.text(at + 1);
        match line.text(at) {
            "password" => password = Password::Crypt(cx.name(value)),
            "insecure-password" => password = Password::Clear(cx.name(value)),
            "groups" => groups = value.split(',').filter(|g| !g.is_empty()).map(|g| cx.name(g)).collect(),
            _ => {
                let message = "'user' only supports 'password', 'insecure-password' and 'groups' options.";
                return Err(fail(line, at, message));
            }
        }
        at += 2;
    }
    draft.list.users.push(User { name, password, groups: Vec::new() });
    draft.user_groups.push(groups);
    Ok(())
}

/// Ties users and groups together.
pub(crate) fn close(cx: &mut Cx<'_>, mut draft: UserlistDraft) {
    let list = &mut draft.list;
    let complain = |cx: &mut Cx<'_>, message: String| {
        cx.diagnostics
            .push(thalweg_syntax::Diagnostic::alert(message).lead(thalweg_syntax::Lead::Bare).at(draft.span));
    };
    for (index, groups) in draft.user_groups.iter().enumerate() {
        for name in groups {
            match list.groups.iter().position(|g| g == name) {
                Some(group) => list.users[index].groups.push(group as u32),
                None => {
                    let user = &list.users[index].name;
                    complain(
                        cx,
                        format!(
                            "userlist '{}': no such group '{name}' specified in user '{user}'",
                            list.name
                        ),
                    );
                }
            }
        }
    }
    for (group, users) in draft.group_users.iter().enumerate() {
        for name in users {
            match list.users.iter_mut().find(|u| u.name == *name) {
                Some(user) => user.groups.push(group as u32),
                None => {
                    let title = &list.groups[group];
                    complain(
                        cx,
                        format!(
                            "userlist '{}': no such user '{name}' specified in group '{title}'",
                            list.name
                        ),
                    );
                }
            }
        }
    }
    for user in &mut list.users {
        user.groups.sort_unstable();
        user.groups.dedup();
    }
    if !cx.config.userlists.iter().any(|u| u.name == draft.list.name) {
        cx.config.userlists.push(draft.list.into());
    }
}
