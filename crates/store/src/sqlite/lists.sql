-- Whose a row of a list is stands beside when it is from, so that each list is read from an index in its order, and nobody
-- looks at rows that they may not see. The columns are the session's, which never change but for its use.
ALTER TABLE interruptions ADD COLUMN tenant TEXT;
ALTER TABLE interruptions ADD COLUMN subject TEXT;
UPDATE interruptions SET (tenant, subject) = (SELECT s.tenant, s.subject FROM sessions s WHERE s.row = key >> 32);
DROP INDEX interruptions_asked;
DROP INDEX interruptions_waiting;
DROP INDEX interruptions_role;
CREATE INDEX waiting_asked ON interruptions (asked_at) WHERE resolution IS NULL;
CREATE INDEX waiting_subject ON interruptions (tenant, subject, asked_at) WHERE resolution IS NULL AND subject IS NOT NULL;
CREATE INDEX waiting_role ON interruptions (tenant, role, asked_at) WHERE resolution IS NULL AND role IS NOT NULL;
CREATE INDEX waiting_role_asked ON interruptions (role, asked_at) WHERE resolution IS NULL AND role IS NOT NULL;
CREATE INDEX resolved_asked ON interruptions (asked_at) WHERE resolution IS NOT NULL;
CREATE INDEX resolved_subject ON interruptions (tenant, subject, asked_at)
    WHERE resolution IS NOT NULL AND subject IS NOT NULL;
CREATE INDEX resolved_role ON interruptions (tenant, role, asked_at) WHERE resolution IS NOT NULL AND role IS NOT NULL;
CREATE INDEX resolved_role_asked ON interruptions (role, asked_at) WHERE resolution IS NOT NULL AND role IS NOT NULL;

DROP INDEX sessions_subject;
CREATE INDEX sessions_subject ON sessions (tenant, subject, updated_at) WHERE subject IS NOT NULL;
ALTER TABLE reviewers ADD COLUMN tenant TEXT;
ALTER TABLE reviewers ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;
UPDATE reviewers SET (tenant, updated_at) = (SELECT s.tenant, s.updated_at FROM sessions s WHERE s.row = session)
    WHERE session IN (SELECT row FROM sessions);
CREATE INDEX reviewers_used ON reviewers (tenant, role, updated_at);

CREATE INDEX rules_subject ON rules (tenant, subject, made_at) WHERE subject IS NOT NULL;
CREATE INDEX rules_maker ON rules (tenant, made_by, made_at) WHERE made_by IS NOT NULL;
CREATE INDEX rules_role ON rules (tenant, role, made_at) WHERE role IS NOT NULL;

DROP INDEX audit_tenant;
CREATE INDEX audit_tenant ON audit (tenant);
