-- The guards of a client (SPEC 11.4). The order of the rows is the order of use.

-- name: sample
-- The nodes from which guards are chosen, in their order.
SELECT node_id FROM guard_sample ORDER BY rowid;

-- name: guards
-- The guards in the order of use, with the time limits of each.
SELECT node_id, chosen_at_ms, kept_until_ms, last_listed_ms FROM circuit_guard ORDER BY rowid;

-- name: forget_sample
-- All nodes of the sample; the new sample follows in the same transaction.
DELETE FROM guard_sample;

-- name: forget_guards
-- All guards; the new list follows in the same transaction.
DELETE FROM circuit_guard;

-- name: add_to_sample
-- One node behind those of the sample.
INSERT INTO guard_sample (node_id) VALUES (?);

-- name: add_guard
-- One guard behind the others.
INSERT INTO circuit_guard (node_id, chosen_at_ms, kept_until_ms, last_listed_ms) VALUES (?, ?, ?, ?);
