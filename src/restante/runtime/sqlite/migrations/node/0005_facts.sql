-- The journal under the name by which a client's is read too.
CREATE VIEW fact AS SELECT * FROM journal;
