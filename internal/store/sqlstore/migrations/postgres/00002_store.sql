-- +goose Up

-- store is drawn once for each store, and is never another's: a copy has it too, and
-- a store that stands in another schema or database under the same address has not.
ALTER TABLE meta ADD COLUMN store TEXT COLLATE "C" NOT NULL DEFAULT '';

UPDATE meta SET store = gen_random_uuid()::text;

-- The name of an incarnation has the place of this table in the server now, which a
-- copy that was put back by pg_dump does not share.
UPDATE meta SET incarnation = regexp_replace(incarnation, '^([^/]+/[^/]+)',
    '\1.' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' || (SELECT 'meta'::regclass::oid::text))
WHERE incarnation <> '';
