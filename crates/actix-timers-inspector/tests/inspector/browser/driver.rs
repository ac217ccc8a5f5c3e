//! A browser, controlled by the WebDriver protocol: plain HTTP to a chromedriver.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Maximum wait for an expected state of a page, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// The field with the id of an element in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) struct Browser {
    driver: String,
    session: String,
}

impl Browser {
    /// Opens a browser with a window of this size.
    pub(crate) fn open(driver: &str, (width, height): (u32, u32)) -> Self {
        let arguments = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
            --disable-component-update --disable-sync --hide-scrollbars --disable-dev-shm-usage";
        let mut arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        arguments.push(format!("--window-size={width},{height}"));
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": arguments } } } });
        let answer = call(driver, "POST", "/session", Some(&wanted));
        let session = answer["sessionId"].as_str().expect("a session").to_owned();
        Self { driver: driver.to_owned(), session }
    }

    fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        call(&self.driver, method, &format!("/session/{}{path}", self.session), body)
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.command("POST", path, Some(&body))
    }

    pub(crate) fn go_to(&self, address: &str) {
        self.post("/url", json!({ "url": address }));
    }

    /// Runs a script and returns its result.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Returns the value of an expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({})?.textContent ?? ''", json!(selector)));
        text.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&self, what: &str, expression: &str) {
        let start = Instant::now();
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "{what}: not within a minute; the page says: {}", self.text("body"));
            // The page updates by its own timer.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types into the focused element.
    pub(crate) fn keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|stroke| json!({ "type": stroke, "value": key.to_string() })))
            .collect();
        self.post("/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] }));
    }

    /// Presses a key, and holds it: the keyboard repeats it. It has no name in WebDriver.
    pub(crate) fn hold(&self, key: Value) {
        for (kind, repeats) in [("keyDown", false), ("keyDown", true), ("keyDown", true), ("keyUp", false)] {
            let mut params = key.clone();
            params["type"] = json!(kind);
            params["autoRepeat"] = json!(repeats);
            self.post("/goog/cdp/execute", json!({ "cmd": "Input.dispatchKeyEvent", "params": params }));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Holds a button of the mouse at this place for a while.
    pub(crate) fn press(&self, [x, y]: [&Value; 2], duration: Duration) {
        let pause = u64::try_from(duration.as_millis()).expect("a while");
        let steps = json!([
            { "type": "pointerMove", "duration": 0, "x": x, "y": y },
            { "type": "pointerDown", "button": 0 },
            { "type": "pause", "duration": pause },
            { "type": "pointerUp", "button": 0 },
        ]);
        self.post("/actions", json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": steps }] }));
    }

    pub(crate) fn click(&self, selector: &str) {
        loop {
            let found = self.post("/element", json!({ "using": "css selector", "value": selector }));
            let element = found[ELEMENT].as_str().unwrap_or_else(|| panic!("no element {selector}: {found}"));
            let path = format!("/session/{}/element/{element}/click", self.session);
            match try_call(&self.driver, "POST", &path, Some(&json!({}))) {
                Ok(_) => return,
                // The page has drawn it again meanwhile.
                Err(wrong) if wrong["error"] == "stale element reference" => {}
                Err(wrong) => panic!("{selector}: {wrong}"),
            }
        }
    }

    /// Sets the colour scheme that the user prefers.
    pub(crate) fn prefer(&self, scheme: &str) {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.post("/goog/cdp/execute", json!({ "cmd": "Emulation.setEmulatedMedia", "params": media }));
    }

    /// Returns the errors of scripts and network in the console.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "browser" }));
        let severe = log.as_array().expect("a log").iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    /// Saves a screenshot of the page in base64, which `.ci/inspector` decodes, if the environment names a folder.
    pub(crate) fn picture(&self, name: &str) {
        let Ok(folder) = std::env::var("ACTIX_TIMERS_PICTURES") else { return };
        let coded = self.command("GET", "/screenshot", None);
        let path = format!("{folder}/{name}.png.base64");
        std::fs::write(&path, coded.as_str().expect("a picture")).expect("the folder for pictures is there");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.command("DELETE", "", None);
        }
    }
}

fn call(driver: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    try_call(driver, method, path, body).unwrap_or_else(|wrong| panic!("{method} {path}: {wrong}"))
}

/// Returns the error of chromedriver, if it answers with one.
fn try_call(driver: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(driver).expect("chromedriver listens");
    stream.set_read_timeout(Some(2 * PATIENCE)).expect("a timeout can be set");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {driver}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("chromedriver reads");
    let (head, body) = read_answer(&mut stream);
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {head}\n{body}"));
    let value = answer["value"].clone();
    if head.starts_with("HTTP/1.1 200") { Ok(value) } else { Err(value) }
}

/// Reads head and body. chromedriver sends the length of the body, and does not always close.
fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    let mut part = [0; 65_536];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) {
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = stream.read(&mut part).expect("chromedriver answers");
        assert!(read > 0, "chromedriver has gone: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&part[..read]);
    }
}
