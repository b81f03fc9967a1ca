//! Lists of the server, a page at a time or whole.

use std::collections::BTreeMap;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, value::RawValue};

use crate::{
    Outcome,
    desk::Desk,
    failure::{Exit, Failure},
    say,
    terminal::{tell, visible, visible_json},
};

/// Entries per page, when all are wanted.
const PAGE: u16 = 200;
/// How many pages a list has at most: a server that always names a next one would be asked forever.
const PAGES: usize = 50_000;
/// How many pages without entries are read on the way to one that has some. A server looks at a bounded number of rows for each.
const EMPTY: usize = 20;

/// Which part of a list.
#[derive(Args)]
pub(crate) struct Paging {
    /// Entries on a page, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// The cursor of the page, as printed with the page before it
    #[arg(long)]
    cursor: Option<String>,
    /// All pages
    #[arg(long, conflicts_with = "cursor")]
    all: bool,
}

/// A list on a server or in a store.
pub(crate) struct Listed<'a> {
    /// Its path.
    pub(crate) path: &'a [&'a str],
    /// The member of an answer that has its entries.
    pub(crate) member: &'static str,
    /// Which of them.
    pub(crate) query: Vec<(&'static str, String)>,
}

/// Entries as the server wrote them: their numbers keep their digits.
pub(crate) type Entries = Vec<Box<RawValue>>;

impl Listed<'_> {
    /// All entries.
    pub(crate) fn all(&self, desk: &Desk) -> Result<Entries, Failure> {
        self.within(desk, PAGES)
    }

    fn within(&self, desk: &Desk, pages: usize) -> Result<Entries, Failure> {
        let (mut all, mut cursor) = (Entries::new(), None);
        for _ in 0..pages {
            let (entries, next) = self.page(desk, PAGE, cursor)?;
            all.extend(entries);
            cursor = next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
        let text = format!("the list of {} has not ended after {pages} pages; ask for less of it", self.member);
        Err(Failure::new(Exit::Error, text))
    }

    /// One page that has entries, or the end, or a page that has only a cursor.
    fn some(&self, desk: &Desk, paging: &Paging) -> Result<(Entries, Option<String>), Failure> {
        let mut cursor = paging.cursor.clone();
        for _ in 1..EMPTY {
            let (entries, next) = self.page(desk, paging.limit, cursor)?;
            if next.is_none() || !entries.is_empty() {
                return Ok((entries, next));
            }
            cursor = next;
        }
        self.page(desk, paging.limit, cursor)
    }

    fn page(&self, desk: &Desk, limit: u16, cursor: Option<String>) -> Result<(Entries, Option<String>), Failure> {
        let mut query = self.query.clone();
        query.push(("limit", limit.to_string()));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let text = desk.ask(Method::GET, self.path, &query, None)?;
        let mut page: BTreeMap<String, Box<RawValue>> = desk.read(&text)?;
        let (Some(entries), Some(next)) = (page.remove(self.member), page.remove("next_cursor")) else {
            return Err(desk.strange());
        };
        Ok((desk.read(entries.get())?, desk.read(next.get())?))
    }

    /// Prints the wanted part; for people with `lines`, which may align its rows.
    pub(crate) fn print(
        &self,
        desk: &Desk,
        json: bool,
        paging: &Paging,
        lines: impl FnOnce(&[Value]) -> Vec<String>,
    ) -> Outcome {
        let (entries, next) = if paging.all { (self.all(desk)?, None) } else { self.some(desk, paging)? };
        if json {
            let items: Vec<&str> = entries.iter().map(|item| item.get()).collect();
            let (member, next) = (self.member, Value::from(next));
            return say(&visible_json(&format!("{{\"{member}\":[{}],\"next_cursor\":{next}}}", items.join(","))));
        }
        let read = entries.iter().map(|item| desk.read(item.get()));
        let rows = read.collect::<Result<Vec<Value>, Failure>>()?;
        lines(&rows).iter().try_for_each(|line| say(line))?;
        if let Some(next) = next {
            // An empty output would look like the end.
            let more = if rows.is_empty() { "no matches so far; continue with" } else { "there are more:" };
            tell(&format!("{more} --cursor {}", visible(&next)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        thread,
    };

    use clap::Parser;

    use super::*;
    use crate::remote::Remote;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        server: Remote,
    }

    /// A server that answers with these pages, one after the other, and how to ask it; it ends once all were asked for.
    fn serving(pages: Vec<String>) -> (Desk, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let server = thread::spawn(move || {
            for body in pages {
                let (mut stream, _) = listener.accept().expect("a request");
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                assert!(lines.take_while(|line| !line.is_empty()).count() > 0);
                let head = format!("content-length: {}\r\nconnection: close", body.len());
                write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").expect("answered");
            }
        });
        let Program { server: asked } = Program::parse_from(["program", "--url", &url]);
        (Desk::Server(asked), server)
    }

    const LIST: Listed<'_> = Listed { path: &["approvals"], member: "approvals", query: Vec::new() };

    #[test]
    fn u3_a_list_that_never_ends_is_an_error() {
        let (desk, server) = serving(vec![r#"{"approvals":[1.10],"next_cursor":"more"}"#.to_owned(); 3]);
        let failure = LIST.within(&desk, 3).expect_err("it does not end");
        assert_eq!(failure.text, "the list of approvals has not ended after 3 pages; ask for less of it");
        server.join().expect("three pages were asked for");
    }

    #[test]
    fn u3_a_page_without_entries_is_not_the_end_of_a_list() {
        let paging = Paging { limit: 2, cursor: None, all: false };
        let empty = |n: usize| format!(r#"{{"approvals":[],"next_cursor":"{n}"}}"#);
        let found = r#"{"approvals":[1],"next_cursor":"x"}"#.to_owned();
        for (pages, entries, next) in [
            ((1..4).map(empty).chain([found]).collect::<Vec<_>>(), 1, Some("x")),
            (vec![empty(1), r#"{"approvals":[],"next_cursor":null}"#.to_owned()], 0, None),
            ((1..=EMPTY).map(empty).collect(), 0, Some("20")),
        ] {
            let (desk, server) = serving(pages);
            let (found, cursor) = LIST.some(&desk, &paging).expect("a page");
            assert_eq!((found.len(), cursor.as_deref()), (entries, next));
            server.join().expect("all pages were asked for, and no more");
        }
    }
}
