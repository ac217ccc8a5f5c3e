//! Links: those between the files, as the repository shows them; those of the published pages, as rustdoc and the
//! registry show them; and all links of the built documentation.
//!
//! A published page is a file that a crate includes in its documentation: its README or a chapter of the guide. It
//! links by references, because a label has one definition in the file and another one for rustdoc.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::source::repository;

/// The crates with published pages.
const PUBLISHED: [&str; 6] = [
    "actix-timers",
    "actix-timers-durable",
    "actix-timers-inspector",
    "actix-timers-dashboards",
    "actix-timers-postgres",
    "actix-timers-purgatory",
];

/// The start of an address in the repository, in the sources.
const REPOSITORY: &str = r#"", env!("CARGO_PKG_REPOSITORY"), ""#;

/// The version in an address, in the sources.
const VERSION: &str = r#"", env!("CARGO_PKG_VERSION"), ""#;

/// Returns the crate whose documentation has this page. `None` for pages that are in the repository alone, among them
/// pages of measurements, which would be a tenth of a package.
fn publisher(file: &str) -> Option<&str> {
    let Some(chapter) = file.strip_prefix("docs/guide/") else {
        let readme = file.strip_prefix("crates/").and_then(|file| file.strip_suffix("/README.md"));
        return if file == "README.md" { Some("actix-timers") } else { readme };
    };
    match chapter {
        "benchmarks.md" | "scaling.md" | "tutorial.md" => None,
        "cluster.md" => Some("actix-timers-postgres"),
        "durability.md" => Some("actix-timers-durable"),
        "inspector.md" => Some("actix-timers-inspector"),
        _ => Some("actix-timers"),
    }
}

#[test]
fn links_in_the_repository_lead_to_files_and_headings() {
    let mut dead = Vec::new();
    let mut checked = 0;
    for file in markdown_files() {
        let page = Page::read(&file);
        let targets = page.inline.iter().chain(page.definitions.values());
        for target in targets.filter(|target| !is_absolute(target)) {
            checked += 1;
            if let Err(reason) = find(&repository(), &file, target) {
                dead.push(format!("{file}: {target}: {reason}"));
            }
        }
        for label in page.references.iter().filter(|label| !page.definitions.contains_key(*label)) {
            dead.push(format!("{file}: [{label}] is not defined"));
        }
        for label in page.definitions.keys().filter(|label| !page.references.contains(*label)) {
            dead.push(format!("{file}: [{label}] is defined and not used"));
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn rustdoc_and_the_repository_define_the_links_of_a_page_alike() {
    let mut wrong = Vec::new();
    for name in PUBLISHED {
        let definitions = match name {
            "actix-timers" => vec!["src/guide/chapters.md".to_owned(), "src/guide/others.in".to_owned()],
            _ => vec![format!("crates/{name}/src/links.in")],
        };
        let known: BTreeMap<String, String> = definitions.iter().flat_map(|file| rustdoc_definitions(file)).collect();
        let mut used = BTreeSet::new();
        for file in markdown_files().into_iter().filter(|file| publisher(file) == Some(name)) {
            let page = Page::read(&file);
            for target in page.inline.iter().filter(|target| !is_absolute(target) && !target.starts_with('#')) {
                wrong.push(format!("{file}: {target}: a published page needs a reference, defined for rustdoc, too"));
            }
            for (label, target) in page.definitions.iter().filter(|(_, target)| !is_elsewhere(target)) {
                used.insert(label.clone());
                let (path, anchor) = split(target);
                let expected = match item(target) {
                    Some(item) => item,
                    None => address_of(&normal(&folder_of(&file).join(path)), anchor, name),
                };
                match known.get(label) {
                    None => wrong.push(format!("{file}: rustdoc has no [{label}]: define {expected}")),
                    Some(found) if *found == expected => {}
                    Some(found) => wrong.push(format!("{file}: [{label}] is {found} for rustdoc, not {expected}")),
                }
            }
        }
        let unused = known.keys().filter(|label| !used.contains(*label));
        wrong.extend(unused.map(|label| format!("{:?}: [{label}] is not used", definitions)));
    }
    assert!(wrong.is_empty(), "definitions of links:\n{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs the documentation of the published crates: see `.ci/run`"]
fn links_in_the_documentation_lead_to_pages_and_items() {
    let root = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let doc = fs::canonicalize(root.join("doc")).expect("the documentation");
    let mut pages = BTreeMap::new();
    let crates = ["", "_durable", "_inspector", "_postgres", "_purgatory", "_dashboards", "_derive"];
    for name in &crates.map(|name| format!("actix_timers{name}")) {
        walk(&doc.join(name), &mut |file| {
            if file.extension().is_some_and(|extension| extension == "html") {
                pages.insert(file.to_owned(), Html::read(file));
            }
        });
    }
    // Pages of the repository link to items, too.
    for file in markdown_files() {
        let page = Page::read(&file);
        let links = page.inline.into_iter().chain(page.definitions.into_values()).filter(|link| is_absolute(link));
        let html = Html { links: links.collect(), ids: page.anchors, moved_to: None };
        pages.insert(repository().join(file), html);
    }
    let mut dead = Vec::new();
    let mut checked = 0;
    for (file, html) in &pages {
        for link in &html.links {
            let Some((target, anchor)) = local(link, file, &doc) else { continue };
            checked += 1;
            let target = if target.is_dir() { target.join("index.html") } else { target };
            let moved = pages.get(&target).and_then(|page| page.moved_to.as_ref());
            let target = moved.map_or(target.clone(), |path| PathBuf::from(normal(&target.with_file_name(path))));
            let shown = file.strip_prefix(&doc).unwrap_or(file).display();
            if !target.is_file() {
                dead.push(format!("{shown}: {link}: there is no such file"));
            } else if let Some(page) = pages.get(&target)
                && !anchor.is_empty()
                && !page.ids.contains(&anchor)
            {
                dead.push(format!("{shown}: {link}: there is no such place"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(checked > 1000, "only {checked} links were found");
}

#[test]
#[ignore = "needs the packages, and a clone with an address: see `.ci/package`"]
fn links_of_packages_lead_to_repository_and_documentation() {
    let clone = repository().join("target/clone");
    let mut dead = Vec::new();
    let mut checked = 0;
    for package in fs::read_dir(repository().join("target/unpacked")).expect("packages") {
        let package = package.unwrap().path();
        let read = |file: &str| fs::read_to_string(package.join(file)).unwrap();
        let (manifest, origin) = (read("Cargo.toml"), read(".cargo_vcs_info.json"));
        let [name, address] = ["name", "repository"].map(|key| value(&manifest, key));
        let folder = origin.split_once("\"path_in_vcs\": \"").and_then(|(_, path)| path.split_once('"')).unwrap().0;
        walk(&package, &mut |path| {
            let file = path.strip_prefix(&package).unwrap().to_str().unwrap();
            if !file.ends_with(".md") || file == "src/guide/chapters.md" {
                return;
            }
            if file == value(&manifest, "readme") || file == "CHANGELOG.md" {
                let page = Page::read(path.to_str().unwrap());
                let targets = page.inline.iter().chain(page.definitions.values());
                for target in targets.filter(|target| !is_absolute(target)) {
                    checked += 1;
                    let link = registry_link(address, &Path::new(folder).join(file), target);
                    let found = link.as_deref().and_then(|link| file_of(link, address));
                    let found = found.ok_or_else(|| format!("{address} is of an unknown host"));
                    if let Err(reason) = found.and_then(|found| find(&clone, "README.md", found)) {
                        dead.push(format!("{name}: {file}: {target}: {reason}"));
                    }
                }
            } else {
                // A page of the documentation, whose links are checked there.
                let chapter = format!("docs/guide/{}", path.file_name().unwrap().to_str().unwrap());
                let is_same = fs::read_to_string(clone.join(&chapter)).is_ok_and(|text| text == read(file));
                if !is_same || publisher(&chapter) != Some(name) {
                    dead.push(format!("{name}: {file}: no page of its documentation"));
                }
            }
        });
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(checked > 40, "only {checked} links were found");
}

/// Returns the link that the registry makes of a relative one in a README. `None` if it does not know the host.
fn registry_link(address: &str, readme: &Path, link: &str) -> Option<String> {
    let host = address.strip_prefix("https://")?.split('/').next()?;
    let path = normal(&readme.parent()?.join(link));
    let kind = if path.ends_with(".svg") || path.ends_with(".png") { "raw" } else { "blob" };
    ["github.com", "gitlab.com", "bitbucket.org"].contains(&host).then(|| format!("{address}/{kind}/HEAD/{path}"))
}

/// Returns the file, with its anchor, behind a link to the repository.
fn file_of<'a>(link: &'a str, address: &str) -> Option<&'a str> {
    let path = link.strip_prefix(address)?;
    path.strip_prefix("/blob/HEAD/").or_else(|| path.strip_prefix("/raw/HEAD/"))
}

/// Returns the file and the anchor behind a link of the documentation. `None` for other sites.
fn local(link: &str, page: &Path, doc: &Path) -> Option<(PathBuf, String)> {
    const MANIFEST: &str = include_str!("../../Cargo.toml");
    let (target, anchor) = split(link);
    let anchor = anchor.to_owned();
    if let Some(path) = file_of(target, value(MANIFEST, "repository")) {
        return Some((repository().join(path), anchor));
    }
    if let Some(path) = target.strip_prefix("https://docs.rs/actix-timers") {
        // `-durable/VERSION/actix_timers_durable/...`: without a path the front page.
        let (name, path) = path.split_once('/')?;
        let path = path.split_once('/').map_or("", |(_version, path)| path);
        let front = format!("actix_timers{}/", name.replace('-', "_"));
        return Some((doc.join(if path.is_empty() { &front } else { path }), anchor));
    }
    if is_absolute(target) || target.starts_with("javascript:") {
        return None;
    }
    let target = if target.is_empty() { page.to_owned() } else { page.parent()?.join(target) };
    Some((PathBuf::from(normal(&target)), anchor))
}

/// Returns a text of a manifest.
fn value<'a>(manifest: &'a str, key: &str) -> &'a str {
    let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    line.expect("a line with the key").trim_end_matches('"')
}

/// Links and anchors of a page of the documentation.
struct Html {
    links: BTreeSet<String>,
    ids: BTreeSet<String>,
    /// The page that this one redirects to, with the anchor of the link.
    moved_to: Option<String>,
}

impl Html {
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let values = |text: &str, name: &str| -> BTreeSet<String> {
            let parts = text.split(name).skip(1);
            parts.filter_map(|part| part.split_once('"')).map(|(value, _)| value.replace("&amp;", "&")).collect()
        };
        let ids = values(&text, " id=\"");
        // Behind it stands documentation of other crates.
        let text = text.split("id=\"blanket-implementations\"").next().unwrap_or_default();
        let mut links = values(text, " href=\"");
        links.extend(values(text, "<img src=\""));
        Self { links, ids, moved_to: values(text, "<script>location.replace(\"").pop_first() }
    }
}

/// The links of a file.
struct Page {
    /// Targets of `[text](target)`.
    inline: Vec<String>,
    /// Labels of `[text][label]` and `[label]`, in lower case.
    references: BTreeSet<String>,
    /// `[label]: target`.
    definitions: BTreeMap<String, String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(file: &str) -> Self {
        let text = fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut page = Self {
            inline: Vec::new(),
            references: BTreeSet::new(),
            definitions: BTreeMap::new(),
            anchors: BTreeSet::new(),
        };
        let mut prose = String::new();
        let mut is_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if is_code {
                continue;
            } else if let Some((label, target)) = definition(line) {
                page.definitions.insert(label, target.to_owned());
            } else if let Some(heading) = heading(line) {
                page.add_anchor(heading);
                prose = prose + heading + "\n";
            } else {
                prose = prose + line + "\n";
            }
        }
        page.add_links(&without_code(&prose));
        page
    }

    /// Adds the anchor of a heading, as GitHub and rustdoc derive it.
    fn add_anchor(&mut self, heading: &str) {
        let words = heading.to_lowercase().replace(' ', "-");
        let anchor: String = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let mut candidates = std::iter::once(anchor.clone()).chain((1..).map(|number| format!("{anchor}-{number}")));
        self.anchors.extend(candidates.find(|candidate| !self.anchors.contains(candidate)));
    }

    fn add_links(&mut self, prose: &str) {
        let mut rest = prose;
        while let Some((_, after)) = rest.split_once('[') {
            let Some((text, after)) = after.split_once(']') else { return };
            // An image may be the text of a link.
            if text.contains('[') {
                rest = &rest[rest.find('[').unwrap() + 1..];
                continue;
            }
            rest = after;
            if let Some((target, after)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
                self.inline.push(target.to_owned());
                rest = after;
            } else if let Some((label, after)) = after.strip_prefix('[').and_then(|after| after.split_once(']')) {
                self.references.insert(label_of(label));
                rest = after;
            } else if text != " " && text != "x" {
                self.references.insert(label_of(text));
            }
        }
    }
}

/// Parses `[label]: target`.
fn definition(line: &str) -> Option<(String, &str)> {
    let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
    Some((label_of(label), target.trim()))
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
}

fn label_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Removes code spans, text between equal numbers of backticks; not the text of a link.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let inside = &rest[start + ticks..];
        prose += &rest[..start];
        let (code, after) = inside.split_once(&"`".repeat(ticks)).unwrap_or(("", inside));
        if prose.ends_with('[') && after.starts_with(']') {
            prose = prose + "`" + code + "`";
        }
        rest = after;
    }
    prose + rest
}

/// Reads definitions for rustdoc: lines of Markdown, or literals of a `concat!`.
fn rustdoc_definitions(file: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    // Long literals continue on the next line.
    let text = text.replace("),\n        \"", "), \"");
    let lines = text.lines().filter_map(|line| {
        let line = &line[line.find('[').filter(|_| line.contains("]: "))?..];
        let line = line.replace(REPOSITORY, "REPOSITORY").replace(VERSION, "VERSION");
        let line = line.split(['"', '\\']).next()?;
        definition(line).map(|(label, target)| (label, target.to_owned()))
    });
    lines.collect()
}

/// Returns the address that rustdoc has for a file, in the pages of a crate.
fn address_of(file: &str, anchor: &str, name: &str) -> String {
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    let Some(publisher) = publisher(file) else {
        let is_image = file.starts_with("docs/images/");
        return format!("REPOSITORY/{}/HEAD/{file}{anchor}", if is_image { "raw" } else { "blob" });
    };
    let front = format!("https://docs.rs/{publisher}/VERSION/");
    // A chapter is a module with the name of its file.
    let chapter = file.strip_prefix("docs/guide/").and_then(|file| file.strip_suffix(".md"));
    match chapter.map(|chapter| chapter.replace('-', "_")) {
        None => front,
        Some(chapter) if publisher == name => format!("crate::guide::{chapter}{anchor}"),
        Some(chapter) => format!("{front}{}/guide/{chapter}/index.html{anchor}", publisher.replace('-', "_")),
    }
}

/// Finds the target of a link in a file.
fn find(root: &Path, file: &str, target: &str) -> Result<(), String> {
    let (path, anchor) = split(target);
    let path = root.join(if path.is_empty() { file.to_owned() } else { normal(&folder_of(file).join(path)) });
    let Some(path) = path.to_str().filter(|path| Path::new(path).exists()) else {
        return Err("there is no such file".to_owned());
    };
    if anchor.is_empty() || path.ends_with(".md") && Page::read(path).anchors.contains(anchor) {
        return Ok(());
    }
    Err("there is no such heading".to_owned())
}

/// Returns the path of the item behind an address on docs.rs: of `struct.Timers.html#method.cancel` it is
/// `crate::Timers::cancel`.
fn item(target: &str) -> Option<String> {
    let (page, member) = split(target.strip_prefix("https://docs.rs/actix-timers/latest/actix_timers/")?);
    let page = page.strip_suffix(".html")?;
    let (modules, item) = page.rsplit_once('/').unwrap_or(("", page));
    let names = modules.split('/').filter(|name| !name.is_empty()).chain([item.split_once('.')?.1]);
    let names: Vec<&str> =
        ["crate"].into_iter().chain(names).chain(member.split_once('.').map(|(_, name)| name)).collect();
    Some(names.join("::"))
}

/// Returns whether a link leads to another project.
fn is_elsewhere(target: &str) -> bool {
    is_absolute(target) && item(target).is_none()
}

fn is_absolute(target: &str) -> bool {
    target.starts_with("https://") || target.starts_with("http://")
}

fn split(target: &str) -> (&str, &str) {
    target.split_once('#').unwrap_or((target, ""))
}

fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().expect("a folder")
}

/// Resolves `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = parts.pop(),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts.to_string_lossy().into_owned()
}

/// Returns all Markdown files, relative to the repository, without symbolic links to them.
pub(crate) fn markdown_files() -> Vec<String> {
    let root = fs::canonicalize(repository()).unwrap();
    let mut files = Vec::new();
    walk(&root, &mut |file| {
        let is_page = file.extension().is_some_and(|extension| extension == "md") && !file.is_symlink();
        if is_page && !file.ends_with("src/guide/chapters.md") {
            files.push(file.strip_prefix(&root).unwrap().to_string_lossy().into_owned());
        }
    });
    files
}

/// Calls `visit` for each file, in order, except in folders of builds and of Git.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let entries: BTreeSet<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    for path in entries {
        let is_skipped = ["target", ".git", "node_modules"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_skipped {
            walk(&path, visit);
        } else if path.is_file() {
            visit(&path);
        }
    }
}
