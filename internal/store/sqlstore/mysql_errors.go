package sqlstore

import (
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/impart-im/impart/internal/fault"
)

// Errors of the servers that mean something here, by their numbers.
const (
	myTooManyConns    = 1040
	myNotReady        = 1047 // Galera: the server is out of the cluster, or not yet in it
	myShutdown        = 1053
	myNoDatabase      = 1049
	myDuplicate       = 1062
	myDuplicateName   = 1061
	myDuplicateColumn = 1060
	myCommitFailed    = 1180
	myLockWait        = 1205
	myDeadlock        = 1213
	myUserLimit       = 1203
	myRights          = 1142
	myReadOnlyOption  = 1290
	myInterrupted     = 1317
	myWrongString     = 1366
	myTooLong         = 1406
	myReadOnlyTxn     = 1792
	myReadOnlyMode    = 1836
	myKilled          = 1927 // MariaDB
	myStatementTime   = 1969 // MariaDB
	myRolledBack      = 3101 // group replication: another member was first
	myExecutionTime   = 3024
	myIdle            = 4031
	tidbConflict      = 9007
	tidbRetry         = 8002
	tidbSchema        = 8028
	tidbUndetermined  = 8501
)

// number is the number of a server's error, 0 for any other.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// myFate tells what became of a transaction. asked says that its COMMIT had been sent,
// together with statements before it: what the server then says of one of those is
// that nothing was committed; what it says of the COMMIT, or what ends the connection,
// leaves the outcome open.
func myFate(err error, asked bool) fate {
	switch {
	case refused(err):
		return failed
	case errors.Is(err, errHook), errors.Is(err, fault.ErrInjected):
		return failed
	case errors.Is(err, errAgain):
		return passing
	}
	switch number(err) {
	case myDuplicate, myLockWait, myDeadlock, myRolledBack, tidbConflict, tidbRetry, tidbSchema, myReadOnlyOption, myReadOnlyTxn, myReadOnlyMode:
		return passing
	case 0, myNotReady, myShutdown, myCommitFailed, myInterrupted, myKilled, myStatementTime, myExecutionTime, myIdle, myTooManyConns, myUserLimit, tidbUndetermined:
		if asked {
			return unknown
		}
		return passing
	}
	return failed
}

// myRowTries is [rowTries] for MySQL.
func myRowTries(err error) int {
	switch number(err) {
	case myLockWait:
		return 1
	case myDuplicate:
		return 2
	case myDeadlock:
		return 4
	}
	return 0
}

// myPasses reports whether a read that failed with err may go well on another
// connection.
func myPasses(err error) bool {
	switch number(err) {
	case 0, myNotReady, myShutdown, myInterrupted, myKilled, myIdle, myDeadlock, myLockWait:
		return !errors.Is(err, errHook)
	}
	return false
}

// myBreaks reports whether the connection, and those beside it in the pool, are of no
// more use.
func myBreaks(err error) bool {
	switch number(err) {
	case 0, myNotReady, myShutdown, myKilled, myIdle, myReadOnlyOption, myReadOnlyTxn, myReadOnlyMode, tidbUndetermined:
		return true
	}
	return false
}

// myShort reports whether a server has no connection left for who asks.
func myShort(err error) bool {
	n := number(err)
	return n == myTooManyConns || n == myUserLimit
}

// myRefusal turns an error about a value that the database cannot hold into the
// refusal that it is.
func myRefusal(err error) error {
	switch number(err) {
	case myTooLong, myWrongString:
		return unstorable()
	}
	return err
}

// serverError is what a server says, with its number and its SQLSTATE for who knows
// nothing of drivers.
type serverError struct{ *mysql.MySQLError }

// Unwrap gives the driver's own error.
func (e serverError) Unwrap() error { return e.MySQLError }

// ServerCode is the number by which the server says what is wrong.
func (e serverError) ServerCode() int { return int(e.Number) }

// told is err as others than this package can read it.
func told(err error) error {
	var e *mysql.MySQLError
	if err == nil || !errors.As(err, &e) || errors.As(err, new(serverError)) {
		return err
	}
	return serverError{e}
}
