"""The first tables: the schema of the earliest version that is still upgraded.

What was 0001 to 0014 is in here; `gateway.storage.migrations.SQUASHED` names these revisions.

Revision ID: 0015_forgetting
"""

from alembic import op

revision = "0015_forgetting"
down_revision = None
phase = "expand"

# Frozen: written in the words that both databases share, so that no later change of `tables.py` changes them. SQLite
# grows a rowid by itself only for INTEGER keys.
TYPES = {
    "sqlite": {
        "id": "INTEGER NOT NULL",
        "schedule_id": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
        "bytes": "BLOB",
    },
    "postgresql": {
        "id": "BIGSERIAL NOT NULL",
        "schedule_id": "BIGSERIAL NOT NULL CONSTRAINT pk_schedule PRIMARY KEY",
        "bytes": "BYTEA",
    },
}
TABLES = {
    "access_grant": """
        subject TEXT NOT NULL, place TEXT DEFAULT '' NOT NULL, kind TEXT NOT NULL, role TEXT NOT NULL,
        granted_by TEXT NOT NULL, at BIGINT NOT NULL,
        CONSTRAINT pk_access_grant PRIMARY KEY (subject, place)
    """,
    "approval": """
        id TEXT NOT NULL, conv TEXT NOT NULL, inbox_id BIGINT NOT NULL, call_id TEXT NOT NULL,
        position INTEGER NOT NULL, run_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
        digest TEXT NOT NULL, reason TEXT NOT NULL, shown TEXT NOT NULL, covers TEXT, requester TEXT,
        language TEXT NOT NULL, chat_type TEXT NOT NULL, status TEXT DEFAULT 'pending' NOT NULL,
        created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, decided_by TEXT, decided_name TEXT, decided_at BIGINT,
        message_ref TEXT, screen TEXT DEFAULT 'open' NOT NULL, choices TEXT, answer TEXT,
        CONSTRAINT pk_approval PRIMARY KEY (id), CONSTRAINT uq_approval_inbox_id_call_id UNIQUE (inbox_id, call_id)
    """,
    "approval_rule": """
        id {id}, conv TEXT NOT NULL, tool TEXT NOT NULL, covers TEXT NOT NULL, shown TEXT NOT NULL,
        created_by TEXT NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_approval_rule PRIMARY KEY (id),
        CONSTRAINT uq_approval_rule_conv_tool_covers UNIQUE (conv, tool, covers)
    """,
    "budget_grant": """
        scope TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL, number INTEGER NOT NULL, usd FLOAT NOT NULL,
        tokens BIGINT NOT NULL, by TEXT NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_budget_grant PRIMARY KEY (scope, name, period, number)
    """,
    "channel_preference": """
        id {id}, channel_type TEXT NOT NULL, channel_id TEXT NOT NULL, provider TEXT NOT NULL, model TEXT,
        source TEXT NOT NULL, locked BOOLEAN DEFAULT false NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_channel_preference PRIMARY KEY (id),
        CONSTRAINT uq_channel_preference_channel_type_channel_id UNIQUE (channel_type, channel_id)
    """,
    "channel_setting": """
        conv TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_channel_setting PRIMARY KEY (conv, key)
    """,
    "control": """
        id {id}, conv TEXT NOT NULL, turn_id BIGINT, kind TEXT NOT NULL, payload TEXT NOT NULL, answered_by TEXT,
        taken_at BIGINT, created_at BIGINT NOT NULL,
        CONSTRAINT pk_control PRIMARY KEY (id)
    """,
    "conversation": """
        key TEXT NOT NULL, epoch BIGINT DEFAULT '0' NOT NULL, worker TEXT, run_id TEXT, acquired_at BIGINT,
        expires_at BIGINT, state TEXT DEFAULT 'open' NOT NULL, session_id TEXT, created_at BIGINT NOT NULL,
        CONSTRAINT pk_conversation PRIMARY KEY (key)
    """,
    "entity": """
        id {id}, audience TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
        CONSTRAINT pk_entity PRIMARY KEY (id), CONSTRAINT uq_entity_audience_key UNIQUE (audience, key)
    """,
    "ephemeral": """
        id {id}, conv TEXT NOT NULL, kind TEXT NOT NULL, ref TEXT NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_ephemeral PRIMARY KEY (id), CONSTRAINT uq_ephemeral_conv_kind_ref UNIQUE (conv, kind, ref)
    """,
    "evolved_prompts": """
        id {id}, name TEXT NOT NULL, signature TEXT NOT NULL, digest TEXT NOT NULL, score FLOAT NOT NULL,
        score_measured BOOLEAN NOT NULL, scorer TEXT NOT NULL, evidence INTEGER NOT NULL, conv TEXT NOT NULL,
        person TEXT, created_at BIGINT NOT NULL,
        CONSTRAINT pk_evolved_prompts PRIMARY KEY (id), CONSTRAINT uq_evolved_prompts_name UNIQUE (name)
    """,
    "goal": """
        id {id}, conv TEXT NOT NULL, origin TEXT, person TEXT, display TEXT DEFAULT '' NOT NULL,
        language TEXT DEFAULT 'en' NOT NULL, role TEXT DEFAULT 'member' NOT NULL,
        chat_type TEXT DEFAULT 'direct' NOT NULL, text TEXT NOT NULL, status TEXT NOT NULL, why TEXT, max_turns BIGINT,
        max_tokens BIGINT, max_usd FLOAT, turns BIGINT DEFAULT '0' NOT NULL, tokens BIGINT DEFAULT '0' NOT NULL,
        usd FLOAT DEFAULT '0' NOT NULL, unpriced BIGINT DEFAULT '0' NOT NULL, auto_state TEXT, auto TEXT,
        created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_goal PRIMARY KEY (id), CONSTRAINT uq_goal_origin UNIQUE (origin)
    """,
    "inbox": """
        id {id}, conv TEXT NOT NULL, kind TEXT NOT NULL, dedup TEXT NOT NULL, event_dedup TEXT, platform_ref TEXT,
        payload TEXT NOT NULL, status TEXT DEFAULT 'new' NOT NULL, attempts INTEGER DEFAULT '0' NOT NULL,
        done_epoch BIGINT, not_before BIGINT, note TEXT, created_at BIGINT NOT NULL,
        forgiven INTEGER DEFAULT '0' NOT NULL,
        CONSTRAINT pk_inbox PRIMARY KEY (id), CONSTRAINT uq_inbox_dedup UNIQUE (dedup),
        CONSTRAINT uq_inbox_event_dedup UNIQUE (event_dedup)
    """,
    "memory": """
        id {id}, audience TEXT NOT NULL, scope TEXT NOT NULL, kind TEXT NOT NULL, conv TEXT NOT NULL, person TEXT,
        speaker TEXT DEFAULT '' NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL,
        confidence FLOAT DEFAULT '1' NOT NULL, session_id TEXT, message_id BIGINT, inbox_id BIGINT,
        dedup TEXT NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_memory PRIMARY KEY (id), CONSTRAINT uq_memory_dedup UNIQUE (dedup)
    """,
    "memory_backlog": """
        id INTEGER NOT NULL, below BIGINT NOT NULL,
        CONSTRAINT pk_memory_backlog PRIMARY KEY (id)
    """,
    "memory_erasure": """
        id {id}, conv TEXT NOT NULL, person TEXT, items INTEGER NOT NULL, messages INTEGER NOT NULL,
        at BIGINT NOT NULL, cleaned_at BIGINT,
        CONSTRAINT pk_memory_erasure PRIMARY KEY (id)
    """,
    "memory_place": """
        conv TEXT NOT NULL, "off" BOOLEAN DEFAULT false NOT NULL, graphed_upto BIGINT DEFAULT '0' NOT NULL,
        CONSTRAINT pk_memory_place PRIMARY KEY (conv)
    """,
    "outbox": """
        id {id}, conv TEXT NOT NULL, inbox_id BIGINT, part INTEGER DEFAULT '0' NOT NULL, dedup TEXT NOT NULL,
        payload TEXT NOT NULL, status TEXT DEFAULT 'new' NOT NULL, attempts INTEGER DEFAULT '0' NOT NULL,
        sent_refs TEXT DEFAULT '[]' NOT NULL, not_before BIGINT, note TEXT, created_at BIGINT NOT NULL,
        CONSTRAINT pk_outbox PRIMARY KEY (id), CONSTRAINT uq_outbox_dedup UNIQUE (dedup)
    """,
    "pairing": """
        id {id}, code_hash TEXT NOT NULL, subject TEXT NOT NULL, display TEXT NOT NULL, conv TEXT NOT NULL,
        language TEXT DEFAULT 'en' NOT NULL, state TEXT DEFAULT 'open' NOT NULL, created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL, ended_at BIGINT, ended_by TEXT,
        CONSTRAINT pk_pairing PRIMARY KEY (id), CONSTRAINT uq_pairing_code_hash UNIQUE (code_hash)
    """,
    "pairing_attempt": """
        id {id}, by TEXT NOT NULL, at BIGINT NOT NULL,
        CONSTRAINT pk_pairing_attempt PRIMARY KEY (id)
    """,
    "passage": """
        id {id}, session_id TEXT NOT NULL, conv TEXT NOT NULL, message_id BIGINT NOT NULL,
        call TEXT DEFAULT '' NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
        CONSTRAINT pk_passage PRIMARY KEY (id),
        CONSTRAINT uq_passage_message_id_call_number UNIQUE (message_id, call, number)
    """,
    "person_zone": """
        person TEXT NOT NULL, zone TEXT, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_person_zone PRIMARY KEY (person)
    """,
    "plan": """
        id {id}, conv TEXT NOT NULL, origin TEXT NOT NULL, person TEXT, display TEXT DEFAULT '' NOT NULL,
        language TEXT DEFAULT 'en' NOT NULL, role TEXT DEFAULT 'member' NOT NULL,
        chat_type TEXT DEFAULT 'direct' NOT NULL, goal TEXT NOT NULL, redacted BOOLEAN DEFAULT false NOT NULL,
        status TEXT NOT NULL, tasks TEXT NOT NULL, estimate TEXT, why TEXT, decided_by TEXT DEFAULT '' NOT NULL,
        ticks INTEGER DEFAULT '0' NOT NULL, screen TEXT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_plan PRIMARY KEY (id), CONSTRAINT uq_plan_origin UNIQUE (origin)
    """,
    "schedule": """
        id {schedule_id}, conv TEXT NOT NULL, name TEXT, origin TEXT, person TEXT, display TEXT DEFAULT '' NOT NULL,
        language TEXT DEFAULT 'en' NOT NULL, role TEXT DEFAULT 'member' NOT NULL,
        chat_type TEXT DEFAULT 'direct' NOT NULL, action TEXT NOT NULL, kind TEXT DEFAULT '' NOT NULL,
        text TEXT NOT NULL, rule TEXT NOT NULL, said TEXT DEFAULT '' NOT NULL, zone TEXT NOT NULL,
        zone_source TEXT NOT NULL, misfire TEXT NOT NULL, state TEXT DEFAULT 'active' NOT NULL, due_at BIGINT,
        due_key TEXT, next_at BIGINT, held BOOLEAN DEFAULT false NOT NULL, failures BIGINT DEFAULT '0' NOT NULL,
        note TEXT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT uq_schedule_conv_name UNIQUE (conv, name), CONSTRAINT uq_schedule_origin UNIQUE (origin)
    """,
    "schedule_run": """
        id {id}, schedule_id BIGINT NOT NULL, conv TEXT NOT NULL, fire_key TEXT NOT NULL, due_at BIGINT NOT NULL,
        at BIGINT NOT NULL, outcome TEXT NOT NULL, count BIGINT DEFAULT '1' NOT NULL, dedup TEXT, run TEXT,
        delivery TEXT, ended_at BIGINT,
        CONSTRAINT pk_schedule_run PRIMARY KEY (id),
        CONSTRAINT uq_schedule_run_schedule_id_fire_key UNIQUE (schedule_id, fire_key)
    """,
    "session": """
        id TEXT NOT NULL, conv TEXT NOT NULL, title TEXT DEFAULT '' NOT NULL, state TEXT DEFAULT 'active' NOT NULL,
        message_count INTEGER DEFAULT '0' NOT NULL, prompt_tokens BIGINT DEFAULT '0' NOT NULL,
        output_tokens BIGINT DEFAULT '0' NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        summary TEXT, summary_upto BIGINT,
        CONSTRAINT pk_session PRIMARY KEY (id)
    """,
    "session_goal": """
        session_id TEXT NOT NULL, state TEXT NOT NULL, text TEXT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_session_goal PRIMARY KEY (session_id)
    """,
    "skill_arm": """
        scope TEXT NOT NULL, name TEXT NOT NULL, successes FLOAT NOT NULL, failures FLOAT NOT NULL,
        simulated FLOAT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_skill_arm PRIMARY KEY (scope, name)
    """,
    "skill_outcomes": """
        id {id}, outcome_type TEXT NOT NULL, conv TEXT NOT NULL, query TEXT NOT NULL, strategy TEXT NOT NULL,
        error TEXT NOT NULL, session_id TEXT, ts BIGINT NOT NULL,
        CONSTRAINT pk_skill_outcomes PRIMARY KEY (id)
    """,
    "skill_trust": """
        name TEXT NOT NULL, verdict TEXT NOT NULL, digest TEXT NOT NULL, grants TEXT NOT NULL, decided_by TEXT,
        at BIGINT NOT NULL,
        CONSTRAINT pk_skill_trust PRIMARY KEY (name)
    """,
    "task": """
        id {id}, conv TEXT NOT NULL, session_id TEXT NOT NULL, dedup TEXT NOT NULL, description TEXT NOT NULL,
        status TEXT NOT NULL, output TEXT DEFAULT '' NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_task PRIMARY KEY (id), CONSTRAINT uq_task_dedup UNIQUE (dedup)
    """,
    "tool_call": """
        id {id}, conv TEXT NOT NULL, inbox_id BIGINT NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL,
        tool TEXT NOT NULL, arguments TEXT NOT NULL, verdict TEXT NOT NULL, approval TEXT, person TEXT,
        result TEXT NOT NULL, elapsed_ms INTEGER NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_tool_call PRIMARY KEY (id), CONSTRAINT uq_tool_call_inbox_id_call_id UNIQUE (inbox_id, call_id)
    """,
    "turn": """
        id {id}, inbox_id BIGINT NOT NULL, conv TEXT NOT NULL, session_id TEXT NOT NULL, run_id TEXT NOT NULL,
        epoch BIGINT NOT NULL, state TEXT NOT NULL, checkpoint TEXT, created_at BIGINT NOT NULL, ended_at BIGINT,
        CONSTRAINT pk_turn PRIMARY KEY (id), CONSTRAINT uq_turn_inbox_id UNIQUE (inbox_id)
    """,
    "usage": """
        id {id}, conv TEXT NOT NULL, session_id TEXT, inbox_id BIGINT, person TEXT, purpose TEXT NOT NULL,
        provider TEXT NOT NULL, model TEXT NOT NULL, prompt BIGINT NOT NULL, output BIGINT NOT NULL,
        cache_creation BIGINT NOT NULL, cache_read BIGINT NOT NULL, cost_usd FLOAT, estimated BOOLEAN NOT NULL,
        created_at BIGINT NOT NULL, call_id TEXT NOT NULL, job TEXT, goal TEXT, audio_s FLOAT DEFAULT '0' NOT NULL,
        CONSTRAINT pk_usage PRIMARY KEY (id)
    """,
    "user_model": """
        person TEXT NOT NULL, audience TEXT NOT NULL, counts TEXT DEFAULT '[]' NOT NULL,
        "off" BOOLEAN DEFAULT false NOT NULL, updated_at BIGINT NOT NULL,
        CONSTRAINT pk_user_model PRIMARY KEY (person, audience)
    """,
    "memory_vector": """
        memory_id BIGINT NOT NULL, audience TEXT NOT NULL, model TEXT NOT NULL, vector {bytes} NOT NULL,
        CONSTRAINT pk_memory_vector PRIMARY KEY (memory_id),
        CONSTRAINT fk_memory_vector_memory_id FOREIGN KEY(memory_id) REFERENCES memory (id)
    """,
    "message": """
        id {id}, session_id TEXT NOT NULL, conv TEXT NOT NULL, inbox_id BIGINT, position INTEGER DEFAULT '0' NOT NULL,
        role TEXT NOT NULL, parts TEXT NOT NULL, agent_visible BOOLEAN DEFAULT true NOT NULL,
        user_visible BOOLEAN DEFAULT true NOT NULL, pinned BOOLEAN DEFAULT false NOT NULL, compacted_at BIGINT,
        person TEXT, created_at BIGINT NOT NULL, place BIGINT, deferred TEXT, counted TEXT,
        CONSTRAINT pk_message PRIMARY KEY (id), CONSTRAINT uq_message_inbox_id_position UNIQUE (inbox_id, position),
        CONSTRAINT fk_message_session_id FOREIGN KEY(session_id) REFERENCES session (id)
    """,
    "relation": """
        id {id}, audience TEXT NOT NULL, subject_id BIGINT NOT NULL, word TEXT NOT NULL, object_id BIGINT NOT NULL,
        confidence FLOAT NOT NULL, active BOOLEAN DEFAULT true NOT NULL, memory_id BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        CONSTRAINT pk_relation PRIMARY KEY (id),
        CONSTRAINT uq_relation_subject_id_word_object_id UNIQUE (subject_id, word, object_id),
        CONSTRAINT fk_relation_subject_id FOREIGN KEY(subject_id) REFERENCES entity (id),
        CONSTRAINT fk_relation_object_id FOREIGN KEY(object_id) REFERENCES entity (id),
        CONSTRAINT fk_relation_memory_id FOREIGN KEY(memory_id) REFERENCES memory (id)
    """,
    "cleared_result": """
        message_id BIGINT NOT NULL, call TEXT NOT NULL, session_id TEXT NOT NULL, text TEXT NOT NULL,
        at BIGINT NOT NULL,
        CONSTRAINT pk_cleared_result PRIMARY KEY (message_id, call),
        CONSTRAINT fk_cleared_result_message_id FOREIGN KEY(message_id) REFERENCES message (id)
    """,
}
# Of two indexes that promise as much, SQLite takes the one made last: it should be that of the few rows still open.
INDEXES = (
    "CREATE INDEX ix_approval_conv ON approval (conv, id)",
    "CREATE INDEX ix_cleared_result_session ON cleared_result (session_id)",
    "CREATE INDEX ix_goal_conv ON goal (conv, id)",
    "CREATE INDEX ix_inbox_platform_ref ON inbox (conv, platform_ref)",
    "CREATE INDEX ix_memory_conv ON memory (conv, id)",
    "CREATE INDEX ix_memory_audience ON memory (audience, kind, id)",
    "CREATE INDEX ix_memory_vector_audience ON memory_vector (audience, model, memory_id)",
    "CREATE INDEX ix_message_session ON message (session_id, id)",
    "CREATE INDEX ix_outbox_conv ON outbox (conv, id)",
    "CREATE INDEX ix_pairing_subject ON pairing (subject, state)",
    "CREATE INDEX ix_pairing_attempt_at ON pairing_attempt (at)",
    "CREATE INDEX ix_passage_session ON passage (session_id)",
    "CREATE INDEX ix_plan_conv ON plan (conv, id)",
    "CREATE INDEX ix_relation_audience ON relation (audience)",
    "CREATE INDEX ix_relation_memory ON relation (memory_id)",
    "CREATE INDEX ix_relation_object ON relation (object_id)",
    "CREATE INDEX ix_schedule_person ON schedule (person)",
    "CREATE INDEX ix_schedule_run_conv ON schedule_run (conv, id)",
    "CREATE INDEX ix_session_conv ON session (conv, updated_at)",
    "CREATE INDEX ix_skill_outcomes_type ON skill_outcomes (outcome_type, ts)",
    "CREATE INDEX ix_skill_outcomes_conv ON skill_outcomes (conv, id)",
    "CREATE INDEX ix_task_session ON task (session_id, id)",
    "CREATE INDEX ix_tool_call_conv ON tool_call (conv, id)",
    "CREATE INDEX ix_turn_conv ON turn (conv, id)",
    "CREATE INDEX ix_usage_conv ON usage (conv, created_at)",
    "CREATE INDEX ix_usage_created_at ON usage (created_at)",
    "CREATE UNIQUE INDEX uq_usage_call_id ON usage (call_id)",
    "CREATE INDEX ix_user_model_audience ON user_model (audience)",
    "CREATE INDEX ix_approval_pending ON approval (conv, expires_at) WHERE status = 'pending'",
    "CREATE INDEX ix_approval_screen ON approval (id) WHERE screen = 'open'",
    "CREATE UNIQUE INDEX ix_goal_active ON goal (conv) WHERE status = 'active'",
    "CREATE INDEX ix_inbox_new ON inbox (conv, id) WHERE status = 'new'",
    "CREATE INDEX ix_outbox_open ON outbox (conv, id) WHERE status in ('new', 'sending')",
    "CREATE UNIQUE INDEX ix_plan_open ON plan (conv) "
    "WHERE status in ('drafting', 'proposed', 'running', 'waiting', 'interrupted')",
    "CREATE INDEX ix_plan_screen ON plan (id) WHERE screen = 'open'",
    "CREATE INDEX ix_schedule_due ON schedule (next_at) WHERE state = 'active'",
    "CREATE INDEX ix_schedule_run_open ON schedule_run (id) WHERE ended_at is null",
    "CREATE INDEX ix_turn_waiting ON turn (session_id, id) WHERE state = 'waiting'",
    "CREATE INDEX ix_usage_goal ON usage (goal) WHERE goal is not null",
)
# Kept up by triggers on SQLite.
PASSAGE_FULL_TEXT = (
    "CREATE VIRTUAL TABLE passage_fts USING fts5(text, content='passage', content_rowid='id', "
    "tokenize='unicode61 remove_diacritics 2')",
    "CREATE TRIGGER passage_written AFTER INSERT ON passage BEGIN "
    "INSERT INTO passage_fts(rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER passage_removed AFTER DELETE ON passage BEGIN "
    "INSERT INTO passage_fts(passage_fts, rowid, text) VALUES ('delete', old.id, old.text); END",
)
MEMORY_FULL_TEXT = (
    "CREATE VIRTUAL TABLE memory_fts USING fts5(scope, speaker, text, "
    "content='memory', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE TRIGGER memory_written AFTER INSERT ON memory BEGIN "
    "INSERT INTO memory_fts(rowid, scope, speaker, text) VALUES (new.id, new.scope, new.speaker, new.text); END",
    "CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN "
    "INSERT INTO memory_fts(memory_fts, rowid, scope, speaker, text) "
    "VALUES ('delete', old.id, old.scope, old.speaker, old.text); END",
    "CREATE TRIGGER memory_rewritten AFTER UPDATE OF scope, speaker, text ON memory BEGIN "
    "INSERT INTO memory_fts(memory_fts, rowid, scope, speaker, text) "
    "VALUES ('delete', old.id, old.scope, old.speaker, old.text); "
    "INSERT INTO memory_fts(rowid, scope, speaker, text) VALUES (new.id, new.scope, new.speaker, new.text); END",
)
POSTGRES_FULL_TEXT = (
    "CREATE INDEX memory_fts_words ON memory USING gin (to_tsvector('english', speaker || ' ' || text))",
)


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns.format(**TYPES[dialect])})")
    full_text = (*PASSAGE_FULL_TEXT, *MEMORY_FULL_TEXT) if dialect == "sqlite" else POSTGRES_FULL_TEXT
    for statement in (*INDEXES, *full_text):
        op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name in ("memory_fts", "passage_fts"):
            op.drop_table(name)
    for name in reversed(TABLES):  # indexes and triggers go with their tables
        op.drop_table(name)
