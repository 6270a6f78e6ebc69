//! `onefold cat`: objects of a store as JSON, for people who look into it. No key is printed.

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, lossy, utc_time};
use onefold::halves::{CatalogView, ChunkLocation, Node};
use onefold::{Filter, Monitor, NodeEntry, Snapshot, Store, StreamRole, operations};
use serde_json::{Value, json};

use crate::args::{Cat, Global};

pub(crate) fn run(global: &Global, args: &Cat, output: Output) -> Result<Code> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let value = match args {
        Cat::Config => config(&super::open(global)?)?,
        Cat::Manifest { id } => {
            let opened = super::open_anywhere(global)?;
            manifest(&opened.repository().find(id, &Filter::default())?)
        }
        Cat::Catalog { container } => {
            let opened = super::open_anywhere(global)?;
            catalog(&*operations::stored_catalog(
                opened.repository(),
                *container,
                &monitor,
            )?)
        }
        Cat::Node { location } => {
            let opened = super::open_anywhere(global)?;
            let read = operations::stored_node(opened.repository(), *location, &monitor)?;
            node(*location, &read)
        }
    };
    super::tell_notes(&monitor, output)?;
    output.object(&value)?;
    if !output.json {
        output.page(&format!("{:#}\n", without_type(value)))?;
    }
    Ok(Code::Success)
}

/// For people, the type is known.
fn without_type(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("message_type");
    }
    value
}

fn config(store: &Store) -> Result<Value> {
    let settings = store.settings();
    let key = |key: onefold::KeyInfo| {
        json!({
            "id": key.id,
            "label": key.label,
            "password": key.has_password,
            "current": key.is_current,
        })
    };
    let keys: Vec<Value> = store.keys()?.into_iter().map(key).collect();
    Ok(json!({
        "message_type": "config",
        "id": store.id().to_string(),
        "chunk_min_bytes": settings.chunk_min_bytes,
        "chunk_avg_bytes": settings.chunk_avg_bytes,
        "chunk_max_bytes": settings.chunk_max_bytes,
        "node_avg_children": settings.node_avg_children,
        "region_bytes": settings.region_bytes,
        "container_bytes": settings.container_bytes,
        "keys": keys,
    }))
}

fn place(at: ChunkLocation) -> String {
    format!("{}:{}", at.container, at.slot)
}

fn manifest(snapshot: &Snapshot) -> Value {
    let backup = &snapshot.backup;
    let stream = |stream: &onefold::StreamRoot| {
        json!({
            "role": match stream.role {
                StreamRole::Content => "content",
                StreamRole::Listing => "listing",
                StreamRole::Fences => "fences",
                StreamRole::Whole => "whole",
            },
            "node": place(stream.location),
            "level": stream.level.get(),
            "fingerprint": stream.fingerprint.to_string(),
            "len": stream.len,
        })
    };
    let span = |span: &onefold::ContainerSpan| json!({"kind": span.kind.folder(), "first": span.first.get(), "count": span.count});
    let totals = &backup.totals;
    json!({
        "message_type": "manifest",
        "id": snapshot.id.get(),
        "series": snapshot.series.to_string(),
        "revision": snapshot.revision.get(),
        "hostname": lossy(&backup.series.host),
        "paths": backup.series.paths.iter().map(|path| lossy(path)).collect::<Vec<_>>(),
        "username": lossy(&backup.user),
        "program": backup.program,
        "time": utc_time(backup.source_time.get()),
        "elapsed_nanos": backup.elapsed_nanos,
        "tags": backup.tags,
        "hold_until": backup.hold_until.map(|until| utc_time(until.get())),
        "streams": backup.streams.iter().map(stream).collect::<Vec<_>>(),
        "containers": backup.containers.iter().map(span).collect::<Vec<_>>(),
        "adopted": backup.adopted.iter().map(|(session, checkpoint)| {
            json!({"session": session.get(), "checkpoint": checkpoint})
        }).collect::<Vec<_>>(),
        "origin": backup.origin.map(|origin| {
            json!({"repository_id": origin.store.to_string(), "snapshot_id": origin.backup.get()})
        }),
        "parents": backup.parents.iter().map(|(parent, revision)| {
            json!({"id": parent.get(), "revision": revision.get()})
        }).collect::<Vec<_>>(),
        "next": backup.next.map(onefold::SessionId::get),
        "rewritten": backup.rewritten,
        "totals": {
            "files": totals.files,
            "dirs": totals.folders,
            "others": totals.others,
            "files_new": totals.files_new,
            "files_changed": totals.files_changed,
            "files_unmodified": totals.files_unchanged,
            "files_failed": totals.files_failed,
            "bytes_logical": totals.bytes_logical,
            "bytes_read": totals.bytes_read,
            "bytes_new": totals.bytes_new,
            "bytes_stored": totals.bytes_stored,
            "chunks": totals.chunks,
            "chunks_new": totals.chunks_new,
            "segments": totals.segments,
            "segments_known": totals.segments_known,
        },
    })
}

fn catalog(view: &CatalogView) -> Value {
    let entries = view.entries().iter().map(|entry| {
        json!({
            "slot": entry.slot.get(),
            "level": entry.level.get(),
            "fingerprint": entry.fingerprint.to_string(),
            "len": entry.len,
            "logical_len": entry.logical_len,
            "region": view.region_of(entry.slot).map(onefold::RegionIndex::get),
        })
    });
    let regions = view.rows().iter().map(|row| {
        json!({
            "offset": row.offset,
            "stored_len": row.stored_len,
            "codec": format!("{:?}", row.codec).to_lowercase(),
            "entries": row.entry_count,
            "digest": format!("{:032x}", row.digest),
        })
    });
    json!({
        "message_type": "catalog",
        "container": view.id().to_string(),
        "generation": view.generation().get(),
        "object_len": view.object_len(),
        "body_generation": view.body().map(onefold::Generation::get),
        "regions": regions.collect::<Vec<_>>(),
        "entries": entries.collect::<Vec<_>>(),
    })
}

fn node(at: ChunkLocation, node: &Node) -> Value {
    let entry = |entry: &NodeEntry| match *entry {
        NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        } => json!({
            "container": container.to_string(),
            "first": first.get(),
            "count": count,
            "len": logical_len,
        }),
        NodeEntry::Zeros { len } => json!({"zeros": len}),
        NodeEntry::Forward {
            series,
            backup,
            stream,
            offset,
            len,
        } => json!({
            "series": series.to_string(),
            "backup": backup.get(),
            "stream": stream,
            "offset": offset,
            "len": len,
        }),
    };
    json!({
        "message_type": "node",
        "node": place(at),
        "level": node.level.get(),
        "logical_len": node.logical_len,
        "containers_max": node.containers_max,
        "entries": node.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}
