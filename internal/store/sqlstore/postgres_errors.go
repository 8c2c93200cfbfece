package sqlstore

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/impart-im/impart/internal/fault"
)

// SQLSTATEs that mean something here.
const (
	codeWarning       = "01000"
	codeNotInUTF8     = "22021" // a text that the database cannot hold
	codeUntranslated  = "22P05"
	codeAssertion     = "22012" // a division by zero: see assertCount
	codeUnique        = "23505"
	codeReadOnly      = "25006"
	codeNoStatement   = "26000"
	codeStalePlan     = "0A000"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codePrivilege     = "42501"
	codeTooMany       = "53300" // connections, those that are kept for others left aside
	codeLimit         = "54000" // the queue of notifications is full
	codeLock          = "55P03"
	codeCanceled      = "57014"
	codeShutdown      = "57P01"
)

// fateOf tells what became of a transaction. asked says that its COMMIT had been
// sent: what then ends the connection leaves the outcome open.
func fateOf(err error, asked bool) fate {
	var e *pgconn.PgError
	switch {
	case refused(err):
		return failed
	case errors.Is(err, errHook), errors.Is(err, fault.ErrInjected):
		return failed
	case errors.As(err, &e) && e.SeverityUnlocalized == "ERROR":
		switch e.Code {
		case codeUnique, codeSerialization, codeDeadlock, codeLock, codeAssertion, codeLimit, codeNoStatement, codeStalePlan, codeReadOnly, codeCanceled:
			return passing
		}
		return failed
	case errors.Is(err, errAgain):
		return passing
	case asked:
		return unknown
	default:
		return passing
	}
}

// rowTries is after how many failures like err some rows of a transaction are taken to
// be at fault, and not the transaction; 0 for other failures. A lock was waited for
// already. A key may be that of another node, whose row the next attempt finds.
func rowTries(err error) int {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.SeverityUnlocalized != "ERROR" {
		return 0
	}
	switch e.Code {
	case codeLock:
		return 1
	case codeUnique:
		return 2
	case codeSerialization, codeDeadlock, codeAssertion, codeCanceled:
		return 3
	}
	return 0
}

// passes reports whether a read that failed with err may go well when it is done again.
func passes(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" {
		switch e.Code {
		case codeNoStatement, codeStalePlan, codeSerialization, codeDeadlock, codeLock:
			return true
		}
		return false
	}
	return !errors.Is(err, errHook)
}

// breaks reports whether the connection, and those beside it in the pool, are of no
// more use.
func breaks(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return true
	}
	return e.SeverityUnlocalized != "ERROR" || e.Code == codeReadOnly || e.Code == codeNoStatement || e.Code == codeStalePlan
}

// isShort reports whether a server has no connection left for who asks.
func isShort(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeTooMany
}

// asRefusal turns an error about a text that the database cannot hold into the
// refusal that it is.
func asRefusal(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && (e.Code == codeNotInUTF8 || e.Code == codeUntranslated) {
		return unstorable()
	}
	return err
}

// fullQueue reports that a commit failed for its notifications.
func fullQueue(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeLimit
}
