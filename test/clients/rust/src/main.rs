//! Follows the pods with a reflector of kube, from the server that the first argument names, or from a pod's own; the
//! second chooses how its initial list is asked for. `what` on standard input is answered with what it holds, as JSON on
//! standard output; any other line is the name of a ConfigMap to create.
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config};
use std::io::BufRead;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let settings = match arguments[1].as_str() {
        "in-cluster" => Config::incluster().unwrap(),
        server => Config::new(server.parse().unwrap()),
    };
    let client = Client::try_from(settings).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let config = watcher::Config::default().page_size(100);
    let config = if arguments[2] == "streaming" { config.streaming_lists() } else { config };
    let (store, writer) = reflector::store::<Pod>();
    let stream = reflector::reflector(writer, watcher(Api::all(client), config)).default_backoff();
    tokio::spawn(stream.for_each(|event| async move {
        if let Err(error) = event {
            eprintln!("{error:?}");
        }
    }));
    println!("\"started\"");
    for command in std::io::stdin().lock().lines() {
        let command = command.unwrap();
        if command == "what" {
            let lines: Vec<String> = store.state().iter().map(|pod| line(pod)).collect();
            println!("[{}]", lines.join(","));
            continue;
        }
        let mut map = ConfigMap::default();
        map.metadata.name = Some(command);
        match maps.create(&Default::default(), &map).await {
            Ok(_) => println!("true"),
            Err(error) => {
                eprintln!("{error:?}");
                println!("false");
            }
        }
    }
}

fn line(pod: &Pod) -> String {
    let turn = pod.metadata.labels.as_ref().and_then(|labels| labels.get("turn"));
    format!("\"{} {}\"", pod.metadata.name.as_deref().unwrap_or(""), turn.map_or("null", String::as_str))
}
