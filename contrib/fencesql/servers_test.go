//go:build unix

package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/redquorum/redquorum/contrib/fencesql"
)

// database is where a test runs: what a program gives to sql.Open.
type database struct{ driver, dsn string }

var databases = []struct {
	name string
	open func(t testing.TB) database
}{
	{"PostgreSQL", postgres},
	{"MariaDB", mariadb},
	{"SQLite", sqlite},
}

// eachDatabase runs a test on every database, with a table that is new.
func eachDatabase(t *testing.T, test func(t *testing.T, d database, db *sql.DB)) {
	for _, known := range databases {
		t.Run(known.name, func(t *testing.T) {
			t.Parallel()
			d := known.open(t)
			db := d.open(t)
			_, err := db.Exec(`DROP TABLE IF EXISTS redquorum_fence`)
			require.NoError(t, err)
			require.NoError(t, fencesql.Migrate(t.Context(), db))
			test(t, d, db)
		})
	}
}

func (d database) open(t testing.TB) *sql.DB {
	db, err := sql.Open(d.driver, d.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sqlite(t testing.TB) database {
	return database{"sqlite", "file:" + filepath.Join(t.TempDir(), "db") +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate"}
}

// server is a server that all tests share. It is started by the first one that needs it.
type server struct {
	once    sync.Once
	err     error
	dir     string
	process *os.Process
	ended   chan error // of the process
}

var postgresServer, mariadbServer server

func TestMain(m *testing.M) {
	if os.Getenv("FENCESQL_HOLDER") != "" {
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	for _, s := range []*server{&postgresServer, &mariadbServer} {
		s.stop()
	}
	os.Exit(code)
}

func postgres(t testing.TB) database {
	s := &postgresServer
	where := func() database {
		return database{"pgx", "host=" + s.dir + " user=postgres dbname=postgres"}
	}
	s.start(t, []string{"initdb", "postgres"}, where,
		[]string{"-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"},
		func() []string {
			return []string{"-D", "data", "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off"}
		})
	return where()
}

func mariadb(t testing.TB) database {
	s := &mariadbServer
	where := func() database { return database{"mysql", "root@unix(" + s.dir + "/s)/test"} }
	// A directory is a database of MariaDB, and without the tables of its rights it asks for none.
	s.start(t, []string{"mkdir", "mariadbd"}, where,
		[]string{"-p", "data/test"},
		func() []string {
			return []string{
				"--no-defaults", "--datadir=" + s.dir + "/data", "--socket=" + s.dir + "/s",
				"--skip-networking", "--skip-grant-tables", "--pid-file=pid", "--innodb-flush-log-at-trx-commit=0",
			}
		})
	return where()
}

// start starts the server once: the first program makes its data, and the second one is the server.
// Where they are missing, the test is skipped; CI installs them.
func (s *server) start(t testing.TB, names []string, where func() database, setup []string, args func() []string) {
	paths := programs(names...)
	if paths == nil {
		missing := fmt.Sprintf("needs %s in PATH, or below /usr/lib/postgresql", strings.Join(names, " and "))
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	s.once.Do(func() { s.err = s.run(paths, where, setup, args) })
	require.NoError(t, s.err)
}

func (s *server) run(paths []string, where func() database, setup []string, args func() []string) (err error) {
	if s.dir, err = os.MkdirTemp("", "fence"); err != nil {
		return err
	}
	if id, ok := nobody(); ok {
		if err := os.Chown(s.dir, int(id.Uid), int(id.Gid)); err != nil {
			return err
		}
	}
	if out, err := s.command(paths[0], setup...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", paths[0], err, out)
	}
	server := s.command(paths[1], args()...)
	if err := server.Start(); err != nil {
		return err
	}
	s.process, s.ended = server.Process, make(chan error, 1)
	go func() { s.ended <- server.Wait() }()
	return s.await(where())
}

// await returns when the server answers.
func (s *server) await(d database) error {
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case end := <-s.ended:
			return fmt.Errorf("the server has ended: %w", end)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Kill()
		<-s.ended
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// command runs a program as the user nobody where we are root: the servers refuse to run as root.
func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	if id, ok := nobody(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: id}
	}
	return cmd
}

func nobody() (*syscall.Credential, bool) {
	if os.Geteuid() != 0 {
		return nil, false
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, false
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, err2) == nil
}

// programs returns the paths of all these programs, or nil. Debian keeps those of PostgreSQL out of
// PATH, and that of MariaDB out of a user's.
func programs(names ...string) []string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		panic(err) // the pattern is bad
	}
	var paths []string
	for _, name := range names {
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), append(found, "/usr/sbin")...) {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				paths = append(paths, path)
				break
			}
		}
	}
	if len(paths) < len(names) {
		return nil
	}
	return paths
}

// begin starts a transaction that is rolled back at the end of the test, unless it was committed.
func begin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
