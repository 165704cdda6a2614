//! Script files: SQL between semicolons, and lines of backslash commands, cut up as psql and pgbench do.

use std::time::Duration;

use super::expression::{self, Expression};

#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub action: Action,
    /// For reports: the first line of what it was.
    pub text: String,
    pub line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Sql(Sql),
    Set(String, Expression),
    Sleep(Argument, Duration),
    If(Expression),
    Elif(Expression),
    Else,
    EndIf,
    /// The variable that gets the first line of the output, if any; the words of the command.
    Shell(Option<String>, Vec<Argument>),
    StartPipeline,
    EndPipeline,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sql {
    pub text: String,
    pub fetch: Fetch,
}

/// What becomes of the rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Fetch {
    Drop,
    /// `\gset prefix`: exactly one row.
    One(String),
    /// `\aset prefix`: the last row of each result that has one.
    Last(String),
}

/// A word of a backslash command: text, or a variable's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    Text(String),
    Variable(String),
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptError {
    pub message: String,
    pub line: usize,
}

pub fn parse(text: &str) -> Result<Vec<Command>, ScriptError> {
    let mut parser = Parser { text, at: 0, line: 1, commands: Vec::new() };
    parser.run()?;
    check_conditions(&parser.commands)?;
    Ok(parser.commands)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    commands: Vec<Command>,
}

/// Why the scan of a statement ended.
enum End {
    Semicolon,
    Backslash,
    Text,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, ScriptError> {
        Err(ScriptError { message: message.into(), line: self.line })
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + bytes];
        self.line += taken.bytes().filter(|b| *b == b'\n').count();
        self.at += bytes;
        taken
    }

    fn run(&mut self) -> Result<(), ScriptError> {
        loop {
            self.skip_space();
            let line = self.line;
            let (sql, end) = self.statement()?;
            let sql = sql.trim();
            if !sql.is_empty() {
                let action = Action::Sql(Sql { text: sql.to_owned(), fetch: Fetch::Drop });
                self.push(action, sql, line);
            }
            match end {
                End::Semicolon => {}
                End::Backslash => self.backslash()?,
                End::Text => return Ok(()),
            }
        }
    }

    fn push(&mut self, action: Action, text: &str, line: usize) {
        let text = text.trim().lines().next().unwrap_or_default().trim_end().to_owned();
        self.commands.push(Command { action, text, line });
    }

    /// Space and `--` comments in front of a statement are not part of it.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            self.advance(space);
            if !self.rest().starts_with("--") {
                return;
            }
            let comment = self.rest().find('\n').unwrap_or(self.rest().len());
            self.advance(comment);
        }
    }

    fn statement(&mut self) -> Result<(String, End), ScriptError> {
        let mut sql = String::new();
        let mut depth = 0usize;
        while let Some(next) = self.rest().chars().next() {
            match next {
                ';' if depth == 0 => {
                    self.advance(1);
                    return Ok((sql, End::Semicolon));
                }
                // `\;` joins statements into one text.
                '\\' if self.rest().starts_with("\\;") => {
                    self.advance(2);
                    sql.push(';');
                    continue;
                }
                '\\' => return Ok((sql, End::Backslash)),
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let length = self.token_length(next, &sql)?;
            sql.push_str(self.advance(length));
        }
        Ok((sql, End::Text))
    }

    /// A quoted text or a comment is one token: what looks like an end in it is none.
    fn token_length(&self, next: char, before: &str) -> Result<usize, ScriptError> {
        let rest = self.rest();
        match next {
            '\'' => {
                let is_escaped = before.ends_with(['e', 'E'])
                    && !before[..before.len() - 1].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                self.quoted('\'', is_escaped)
            }
            '"' => self.quoted('"', false),
            '-' if rest.starts_with("--") => Ok(rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => self.comment(),
            '$' => self.dollar_quoted(before),
            other => Ok(other.len_utf8()),
        }
    }

    fn quoted(&self, quote: char, is_escaped: bool) -> Result<usize, ScriptError> {
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            if character == '\\' && is_escaped {
                characters.next();
            } else if character == quote {
                return Ok(at + 1);
            }
        }
        self.error(format!("unterminated {quote}"))
    }

    fn comment(&self) -> Result<usize, ScriptError> {
        let rest = self.rest();
        let mut depth = 0;
        let mut at = 0;
        while at < rest.len() {
            let (step, change) = match &rest.as_bytes()[at..] {
                [b'/', b'*', ..] => (2, 1),
                [b'*', b'/', ..] => (2, -1),
                _ => (1, 0),
            };
            at += step;
            depth += change;
            if depth == 0 {
                return Ok(at);
            }
        }
        self.error("unterminated /* comment")
    }

    fn dollar_quoted(&self, before: &str) -> Result<usize, ScriptError> {
        let rest = self.rest();
        let is_tag = |c: char| c.is_alphanumeric() || c == '_';
        let tag_end = rest[1..].find(|c| !is_tag(c)).map_or(rest.len(), |end| end + 1);
        // `$1` is a parameter, `a$b$` a name.
        let is_quote = rest[tag_end..].starts_with('$')
            && !rest[1..].starts_with(|c: char| c.is_ascii_digit())
            && !before.ends_with(|c| is_tag(c) || c == '$');
        if !is_quote {
            return Ok(1);
        }
        let tag = &rest[..=tag_end];
        match rest[tag.len()..].find(tag) {
            Some(end) => Ok(end + 2 * tag.len()),
            None => self.error(format!("unterminated {tag}")),
        }
    }

    fn backslash(&mut self) -> Result<(), ScriptError> {
        let line = self.line;
        let mut length = 0;
        // A backslash at the end of a line continues it.
        loop {
            let end = self.rest()[length..].find('\n').map_or(self.rest().len(), |end| length + end);
            let is_continued = self.rest()[..end].trim_end_matches('\r').ends_with('\\') && end > length + 1;
            length = end;
            if !is_continued || end == self.rest().len() {
                break;
            }
            length += 1;
        }
        let whole = &self.rest()[..length];
        let parsed = self.command(whole, line);
        self.advance(length);
        parsed
    }

    fn command(&mut self, whole: &str, line: usize) -> Result<(), ScriptError> {
        let after = &whole[1..];
        let name_end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (name, rest) = (&after[..name_end], after[name_end..].trim());
        let words: Vec<&str> = rest.split_whitespace().collect();
        let wrong = |message: String| Err(ScriptError { message, line });
        let expression = |text: &str| {
            expression::parse(text).map_err(|problem| ScriptError {
                message: format!(
                    "{} in command \"{name}\" at \"{}\"",
                    problem.message,
                    from(text, problem.at)
                ),
                line,
            })
        };
        let none_taken = |action| match words.is_empty() {
            true => Ok(action),
            false => Err(ScriptError { message: format!("unexpected argument in command \"{name}\""), line }),
        };
        let action = match name {
            "set" => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (variable, text) = (&rest[..end], rest[end..].trim());
                if variable.is_empty() || text.is_empty() {
                    return wrong("missing argument in command \"set\"".to_owned());
                }
                Action::Set(valid_name(variable, line)?, expression(text)?)
            }
            "if" => Action::If(expression(rest)?),
            "elif" => Action::Elif(expression(rest)?),
            "else" => none_taken(Action::Else)?,
            "endif" => none_taken(Action::EndIf)?,
            "startpipeline" => none_taken(Action::StartPipeline)?,
            "endpipeline" => none_taken(Action::EndPipeline)?,
            "sleep" => sleep(&words, line)?,
            "shell" if words.is_empty() => return wrong("missing command in command \"shell\"".to_owned()),
            "shell" => Action::Shell(None, words.iter().map(|word| argument(word)).collect()),
            "setshell" if words.len() < 2 => {
                return wrong("missing argument in command \"setshell\"".to_owned());
            }
            "setshell" => Action::Shell(
                Some(valid_name(words[0], line)?),
                words[1..].iter().map(|word| argument(word)).collect(),
            ),
            "gset" | "aset" => return self.fetch(name, &words, line),
            other => return wrong(format!("invalid command \"\\{other}\"")),
        };
        self.push(action, whole, line);
        Ok(())
    }

    /// `\gset` and `\aset` belong to the statement before them.
    fn fetch(&mut self, name: &str, words: &[&str], line: usize) -> Result<(), ScriptError> {
        let wrong = |message: String| Err(ScriptError { message, line });
        if words.len() > 1 {
            return wrong(format!("too many arguments in command \"{name}\""));
        }
        let prefix = words.first().copied().unwrap_or_default().to_owned();
        match self.commands.last_mut().map(|command| &mut command.action) {
            Some(Action::Sql(sql)) if sql.fetch == Fetch::Drop => {
                sql.fetch = if name == "gset" { Fetch::One(prefix) } else { Fetch::Last(prefix) };
                Ok(())
            }
            _ => wrong(format!("\\{name} must follow an SQL command")),
        }
    }
}

fn from(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    if rest.is_empty() { "end of line" } else { rest }
}

fn valid_name(name: &str, line: usize) -> Result<String, ScriptError> {
    let is_valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
    // As SQL's parameters are: `:1x` is no variable.
    let is_start = name.starts_with(|c: char| !c.is_ascii_digit());
    match is_valid && is_start {
        true => Ok(name.to_owned()),
        false => Err(ScriptError { message: format!("invalid variable name: \"{name}\""), line }),
    }
}

/// `:name` is a variable, `::name` the text `:name`.
fn argument(word: &str) -> Argument {
    match word.strip_prefix(':') {
        Some(escaped) if escaped.starts_with(':') => Argument::Text(escaped.to_owned()),
        Some(name) if !name.is_empty() => Argument::Variable(name.to_owned()),
        _ => Argument::Text(word.to_owned()),
    }
}

fn sleep(words: &[&str], line: usize) -> Result<Action, ScriptError> {
    let wrong = |message: String| Err(ScriptError { message, line });
    let Some(first) = words.first() else { return wrong("missing argument in command \"sleep\"".to_owned()) };
    let (amount, unit) = match (words, first.find(|c: char| c.is_ascii_alphabetic())) {
        ([_, unit], _) => (*first, *unit),
        ([_], Some(at)) if !first.starts_with(':') => first.split_at(at),
        ([_], _) => (*first, "s"),
        _ => return wrong("too many arguments in command \"sleep\"".to_owned()),
    };
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => {
            return wrong(format!(
                "unrecognized time unit, must be us, ms or s (\"{unit}\") in command \"sleep\""
            ));
        }
    };
    let amount = argument(amount);
    if let Argument::Text(text) = &amount
        && text.parse::<u32>().is_err()
    {
        return wrong(format!("invalid sleep time, must be an integer (\"{text}\") in command \"sleep\""));
    }
    Ok(Action::Sleep(amount, unit))
}

fn check_conditions(commands: &[Command]) -> Result<(), ScriptError> {
    let mut open = Vec::new();
    for command in commands {
        let wrong = |message: &str| Err(ScriptError { message: message.to_owned(), line: command.line });
        match (&command.action, open.last().copied()) {
            (Action::If(_), _) => open.push(false),
            (Action::Elif(_), None) => return wrong("\\elif without matching \\if"),
            (Action::Elif(_), Some(true)) => return wrong("\\elif after \\else"),
            (Action::Else, None) => return wrong("\\else without matching \\if"),
            (Action::Else, Some(true)) => return wrong("\\else after \\else"),
            (Action::Else, Some(false)) => *open.last_mut().expect("one is open") = true,
            (Action::EndIf, None) => return wrong("\\endif without matching \\if"),
            (Action::EndIf, Some(_)) => drop(open.pop()),
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(ScriptError {
            message: "\\if without matching \\endif".to_owned(),
            line: commands.last().map_or(1, |command| command.line),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        let sql = |command: Command| match command.action {
            Action::Sql(sql) => Some(sql.text),
            _ => None,
        };
        parse(script).unwrap().into_iter().filter_map(sql).collect()
    }

    #[test]
    fn statements_end_where_psql_ends_them() {
        assert_eq!(
            texts(
                "-- first\nselect ';' ;\nselect $x$ ; $x$, \"a;b\" /* ; /* ; */ */;\nselect (1;2);\nselect 3"
            ),
            ["select ';'", "select $x$ ; $x$, \"a;b\" /* ; /* ; */ */", "select (1;2)", "select 3"]
        );
        assert_eq!(
            texts("select 1\\; select 2;\nselect E'\\';', '\\';"),
            ["select 1; select 2", "select E'\\';', '\\'"]
        );
        assert_eq!(texts("select $1, a$b$ from t;x"), ["select $1, a$b$ from t", "x"]);
    }

    #[test]
    fn backslash_commands_are_lines() {
        let commands =
            parse("\\set a 1 + \\\n 2\nselect :a\n  as b \\gset p_\n\\sleep 5 ms\n\\sleep :a us").unwrap();
        assert_eq!(commands.len(), 4);
        assert_eq!(commands[0].action, Action::Set("a".into(), expression::parse("1 + 2").unwrap()));
        let wanted = Sql { text: "select :a\n  as b".into(), fetch: Fetch::One("p_".into()) };
        assert_eq!(commands[1].action, Action::Sql(wanted));
        assert_eq!(commands[1].line, 3);
        assert_eq!(commands[2].action, Action::Sleep(Argument::Text("5".into()), Duration::from_millis(1)));
        assert_eq!(
            commands[3].action,
            Action::Sleep(Argument::Variable("a".into()), Duration::from_micros(1))
        );
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        for (script, message, line) in [
            ("select 1;\n\\sett x 1", "invalid command \"\\sett\"", 2),
            ("\\set 1x 5", "invalid variable name: \"1x\"", 1),
            ("\\setshell 2 date", "invalid variable name: \"2\"", 1),
            ("\\set x", "missing argument in command \"set\"", 1),
            ("\n\n\\set x 1 +", "unexpected end of the expression in command \"set\" at \"end of line\"", 3),
            ("\\if 1\nselect 1;", "\\if without matching \\endif", 2),
            ("\\endif", "\\endif without matching \\if", 1),
            ("\\gset", "\\gset must follow an SQL command", 1),
            ("\\sleep x", "unrecognized time unit, must be us, ms or s (\"x\") in command \"sleep\"", 1),
            ("select 'a", "unterminated '", 1),
        ] {
            let error = parse(script).unwrap_err();
            assert_eq!((error.message.as_str(), error.line), (message, line), "{script}");
        }
    }
}
