package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
	"github.com/impart-im/impart/internal/lab/rows"
)

// Engine is what the servers of a run keep their messages in.
type Engine string

// The engines. The zero value of an engine is SQLite.
const (
	SQLite     Engine = "sqlite"
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql" // on MariaDB
)

// Engines are all of them.
func Engines() []Engine { return []Engine{SQLite, PostgreSQL, MySQL} }

// Shape is what a node consists of.
type Shape string

// The shapes. The zero value of a shape is Whole.
const (
	Whole Shape = "whole" // impart serve
	Apart Shape = "apart" // impart gateway and impart logic, with a Redis
)

// On gives the checks that make sense on an engine and in a shape, in their own order.
func On(engine Engine, shape Shape, checks []Check) []Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool {
		return len(c.Only) > 0 && !slices.Contains(c.Only, engine) || c.Shape != "" && c.Shape != shape
	})
}

// Settings are those of database servers, by engine, as PostgreSQL: {"fsync": "off"}.
type Settings map[Engine]map[string]string

// pool is the database server that the checks of a run have in common, each with
// databases of its own: those that break no server.
type pool struct {
	mu     sync.Mutex // guards what follows
	server databaseServer
	made   int
}

// database makes a fresh one. The server is started for the first.
func (p *pool) database(ctx context.Context, engine Engine) (databaseServer, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		server, err := startDatabase(context.WithoutCancel(ctx), engine, databaseOptions{})
		if err != nil {
			return nil, "", err
		}
		p.server = server
	}
	p.made++
	name := fmt.Sprintf("check_%d", p.made)
	return p.server, name, p.server.CreateDatabase(ctx, name)
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}

// place is where a server keeps its messages, and where its rows are looked at.
type place struct {
	dsn  func() string // for the server: IM_STORE
	look func() string // for [rows.Open]

	mu   sync.Mutex // guards what follows
	db   *rows.DB   // open, of a database that costs to connect to
	from string     // what it was opened with
}

// filePlace is SQLite's file in a folder.
func filePlace(dir string) *place {
	dsn := func() string { return "sqlite:" + filepath.Join(dir, "impart.db") }
	return &place{dsn: dsn, look: dsn}
}

// open gives the rows and what to do with them afterwards. A file is opened anew
// each time: whether somebody serves it says how.
func (p *place) open() (db *rows.DB, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.look()
	if p.db != nil && p.from == from {
		return p.db, func() {}, nil
	}
	p.shut()
	if db, err = rows.Open(from); err != nil {
		return nil, nil, err
	}
	if !db.Served() {
		return db, func() { _ = db.Close() }, nil
	}
	p.db, p.from = db, from
	return db, func() {}, nil
}

// shut closes what is open, under mu.
func (p *place) shut() {
	if p.db != nil {
		_ = p.db.Close()
	}
	p.db, p.from = nil, ""
}

func (p *place) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
}

// freshPlace is an empty store of the run's engine.
func (b *Bench) freshPlace(dir string) *place {
	if b.Engine != PostgreSQL && b.Engine != MySQL {
		return filePlace(dir)
	}
	if len(b.Sabotage.Settings[b.Engine]) > 0 { // the twin's server is like no other
		return b.Database(nil).place
	}
	server, name, err := b.pool.database(b.ctx, b.Engine)
	b.mustServe(err)
	p := &place{dsn: func() string { return server.DSN(name) }, look: func() string { return server.AdminDSN(name) }}
	b.Cleanup(func() {
		p.close()
		_ = server.DropDatabase(context.WithoutCancel(b.ctx), name) // the server goes with the run
	})
	return p
}

// mustServe ends the run at an error; without the database's programs as NOT_RUN.
func (b *Bench) mustServe(err error) {
	if errors.Is(err, postgres.ErrNotFound) || errors.Is(err, mysql.ErrNotFound) {
		b.NotRun(err.Error())
	}
	b.Must(err)
}

// Look does something with the rows.
func (s *Server) Look(f func(*rows.DB) error) {
	db, done, err := s.place.open()
	s.b.Must(err)
	defer done()
	s.b.Must(f(db))
}

// ask is what a question to the rows gives.
func ask[T any](s *Server, question func(*rows.DB) (T, error)) (answer T) {
	s.Look(func(db *rows.DB) (err error) { answer, err = question(db); return err })
	return answer
}

// Total is how many events there are in all conversations.
func (s *Server) Total() int64 {
	return ask(s, func(db *rows.DB) (int64, error) { return db.Total(s.b.ctx) })
}

// Sent is how many rows hold messages of a user.
func (s *Server) Sent(user impart.UserID) int64 {
	return ask(s, func(db *rows.DB) (int64, error) { return db.Sent(s.b.ctx, user) })
}

// Copies is how many rows hold a message of a user.
func (s *Server) Copies(user impart.UserID, cmid impart.CMID) int64 {
	return ask(s, func(db *rows.DB) (int64, error) { return db.Copies(s.b.ctx, user, cmid) })
}

// Place is the seq of a user's message; 0 if it is not there.
func (s *Server) Place(user impart.UserID, cmid impart.CMID) impart.Seq {
	return ask(s, func(db *rows.DB) (impart.Seq, error) { return db.Place(s.b.ctx, user, cmid) })
}

// Cursor is how far a device has acknowledged a conversation, as the rows have it.
func (s *Server) Cursor(user impart.UserID, device impart.DeviceID, conv impart.ConvID) impart.Seq {
	return ask(s, func(db *rows.DB) (impart.Seq, error) { return db.Cursor(s.b.ctx, user, device, conv) })
}

// InstallEpoch is that of a device; 0 if it is not known.
func (s *Server) InstallEpoch(user impart.UserID, device impart.DeviceID) int64 {
	return ask(s, func(db *rows.DB) (int64, error) { return db.InstallEpoch(s.b.ctx, user, device) })
}

// Epoch is the one that the rows have.
func (s *Server) Epoch() impart.Epoch {
	return ask(s, func(db *rows.DB) (impart.Epoch, error) { return db.Epoch(s.b.ctx) })
}

// Periods are the memberships of a user in a conversation.
func (s *Server) Periods(conv impart.ConvID, user impart.UserID) []rows.Period {
	return ask(s, func(db *rows.DB) ([]rows.Period, error) { return db.Periods(s.b.ctx, conv, user) })
}
