"""Reports as one self-contained HTML page. `page` has the building blocks, `verify` the page of `shardlint verify`."""
