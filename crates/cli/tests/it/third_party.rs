//! Spec R12: third-party generators make clients from the published documents, unmodified, that talk with a real
//! server.
//!
//! `cargo xtask test` installs the generators and runs these.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::support::{Ended, Server, Setup, Store, python, run, run_program, trade};

/// The repository's inputs for them.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party").canonicalize().unwrap()
}

/// A temporary folder with the conversations, the packages, and the server's published documents.
async fn workshop(name: &str, server: &Server) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("generated")).unwrap();
    for file in fs::read_dir(sources().join("clients")).unwrap() {
        let file = file.unwrap().path();
        fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    std::os::unix::fs::symlink(sources().join("node_modules"), folder.join("node_modules")).unwrap();
    for document in ["openapi.json", "asyncapi.json", "wire.schema.json"] {
        fs::write(folder.join(document), server.get(&format!("/{document}")).await.body).unwrap();
    }
    folder
}

/// A server whose agent asks for a trade in every turn.
async fn server() -> Server {
    let script = json!({ "turns": [
        { "thinking": "hm", "text": "I will trade.", "tool_calls": [trade(100)] },
        { "text": "{{ last_user }}: {{ last_tool_result }}" },
    ], "at_end": "repeat" });
    Setup::new(Store::Sqlite, &script).start().await
}

#[track_caller]
fn done(what: &str, ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{what}: {}{}", ended.stdout, ended.stderr);
}

fn node(folder: &Path, arguments: &[&str]) -> Ended {
    run_program("node", folder, arguments, "", &[])
}

/// Runs a command of an installed package.
fn tool(folder: &Path, script: &str, arguments: &[&str]) {
    let script = format!("node_modules/{script}");
    done(&script, &node(folder, &[&[&*script], arguments].concat()));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages of tests/third-party; cargo xtask test has them"]
async fn r12_third_party_generators_for_typescript_make_clients_that_compile_strictly_and_talk() {
    let server = server().await;
    let folder = workshop("r12-typescript", &server).await;
    tool(&folder, "openapi-typescript/bin/cli.js", &["openapi.json", "-o", "generated/openapi.ts"]);
    tool(
        &folder,
        "@hey-api/openapi-ts/bin/run.js",
        &["-i", "openapi.json", "-o", "generated/hey-api", "-c", "@hey-api/client-fetch", "--no-log-file"],
    );
    tool(
        &folder,
        "json-schema-to-typescript/dist/src/cli.js",
        &[
            "-i",
            "wire.schema.json",
            "-o",
            "generated/wire.d.ts",
            "--unreachableDefinitions",
            "--no-additionalProperties",
        ],
    );
    tool(&folder, "typescript/bin/tsc", &["-p", "."]);
    let url = format!("http://{}", server.address);
    for (client, quantity) in [("openapi-fetch", 51), ("hey-api", 52), ("wire", 53)] {
        let script = format!("out/{client}.js");
        done(client, &node(&folder, &["--experimental-websocket", &script, &url]));
        let ran = server.calls().pop().unwrap();
        assert!(
            ran.contains(&format!("\"quantity\":{quantity},")) && ran.contains("\"symbol\":\"VNM\""),
            "{client}: {ran}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages of tests/third-party/clients/requirements.txt; cargo xtask test has them"]
async fn r12_third_party_generators_for_python_make_clients_that_talk() {
    let bin = |name: &str| python("clients", name);
    let server = server().await;
    let folder = workshop("r12-python", &server).await;
    let generate = |program: &str, arguments: &[&str]| {
        done(program, &run_program(&bin(program), &folder, arguments, "", &[]));
    };
    fs::write(folder.join("generated/__init__.py"), "").unwrap();
    generate(
        "openapi-python-client",
        &["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "generated/countersign_client"],
    );
    for (document, kind, output) in
        [("wire.schema.json", "jsonschema", "wire.py"), ("openapi.json", "openapi", "openapi_models.py")]
    {
        let output = format!("generated/{output}");
        generate(
            "datamodel-codegen",
            &[
                "--input",
                document,
                "--input-file-type",
                kind,
                "--output",
                &output,
                "--output-model-type",
                "pydantic_v2.BaseModel",
            ],
        );
    }
    let url = format!("http://{}", server.address);
    done("the conversation", &run_program(&bin("python"), &folder, &["client.py", &url], "", &[]));
    let ran = server.calls().pop().unwrap();
    assert!(ran.contains("\"quantity\":54,") && ran.contains("\"symbol\":\"VNM\""), "{ran}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages of tests/third-party; cargo xtask test has them"]
async fn r12_third_party_parser_accepts_the_asyncapi_document() {
    let server = server().await;
    let folder = workshop("r12-asyncapi", &server).await;
    done("the parser", &node(&folder, &["asyncapi.mjs", "asyncapi.json"]));
    // The parser finds faults.
    fs::write(folder.join("asyncapi.json"), r#"{"asyncapi":"3.0.0","info":{}}"#).unwrap();
    assert_eq!(node(&folder, &["asyncapi.mjs", "asyncapi.json"]).code, Some(1));
}

/// Editors of TOML check files with Taplo: `#:schema` in the first line names the schema.
#[test]
#[ignore = "needs the packages of tests/third-party; cargo xtask test has them"]
fn c_third_party_a_toml_editor_reads_the_schema_and_reports_errors() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-taplo");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let schema = run(&folder, &["schema", "--config"], "", &[]);
    fs::write(folder.join("countersign.schema.json"), schema.stdout).unwrap();
    let taplo = sources().join("node_modules/@taplo/cli/dist/cli.js");
    let lint = |config: &str| {
        fs::write(folder.join("c.toml"), format!("#:schema ./countersign.schema.json\n{config}")).unwrap();
        node(&folder, &[taplo.to_str().unwrap(), "lint", "c.toml"])
    };
    let right = fs::read_to_string(sources().join("../../examples/policy.toml")).unwrap();
    done("taplo lint", &lint(&right));
    let model = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\n";
    done("taplo lint", &lint(model));
    for (wrong, told) in [
        ("instuctions = \"x\"", "instuctions"),
        ("max_turns = 0", "minimum"),
        ("tools = \"cat\"", "array"),
        ("on_cut = \"stop\"", "\"end\""),
        (
            "[tools.t]\ncommand = [\"cat\"]\n[tools.t.http]\nmethod = \"GET\"\nurl = \"http://h/\"",
            "False schema does not allow",
        ),
    ] {
        let said = lint(&format!("{model}{wrong}\n"));
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(said.code != Some(0) && text.contains(told), "{wrong}: {text}");
    }
}
