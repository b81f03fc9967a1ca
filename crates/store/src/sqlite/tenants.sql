-- Whose people a session and its audit records belong to; null where there are no tenants. The body of a record says
-- it too: this column only finds it.
ALTER TABLE sessions ADD COLUMN tenant TEXT;
ALTER TABLE audit ADD COLUMN tenant TEXT;
CREATE INDEX audit_tenant ON audit (tenant, n) WHERE tenant IS NOT NULL;
