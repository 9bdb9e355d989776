// Package databasetest gives tests a database of SQLite and one of PostgreSQL.
package databasetest

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

// Database is an empty database.
type Database struct {
	*sql.DB
	Driver, Address string // for other processes
}

// Run runs a test on SQLite and on PostgreSQL.
func Run(t *testing.T, test func(t *testing.T, db Database)) {
	t.Run("SQLite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, PostgreSQL(t)) })
}

// SQLite returns a database in a file.
func SQLite(t testing.TB) Database {
	t.Helper()
	return Open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "projections.db")+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
}

// PostgreSQL returns a schema of the server that WATERSHIP_TEST_POSTGRES_URL names.
func PostgreSQL(t testing.TB) Database {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_POSTGRES_URL")
	if server == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(`WATERSHIP_TEST_POSTGRES_URL is not set (eval "$(scripts/services env)")`)
		}
		t.Skip(`WATERSHIP_TEST_POSTGRES_URL is not set (eval "$(scripts/services env)")`)
	}
	schema := "test_" + strings.ToLower(rand.Text())
	admin := Open(t, "pgx", server)
	if _, err := admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec("DROP SCHEMA " + schema + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	values := address.Query()
	values.Set("search_path", schema)
	values.Set("application_name", schema)
	address.RawQuery = values.Encode()
	return Open(t, "pgx", address.String())
}

// Open opens a database until the test ends.
func Open(t testing.TB, driver, address string) Database {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return Database{db, driver, address}
}
