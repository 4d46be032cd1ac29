-- The guards of a client (SPEC 11.4). The order of the rows is the order of use.

-- name: sample
SELECT node_id FROM guard_sample ORDER BY rowid;

-- name: guards
SELECT node_id, chosen_at_ms, kept_until_ms, last_listed_ms FROM circuit_guard ORDER BY rowid;

-- name: forget_sample
DELETE FROM guard_sample;

-- name: forget_guards
DELETE FROM circuit_guard;

-- name: add_to_sample
INSERT INTO guard_sample (node_id) VALUES (?);

-- name: add_guard
INSERT INTO circuit_guard (node_id, chosen_at_ms, kept_until_ms, last_listed_ms) VALUES (?, ?, ?, ?);
