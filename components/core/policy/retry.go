package policy

import (
	"regexp"
	"time"
)

const (
	// RetryFirst is the range of the first pause of a Boot that asks for admission.
	RetryFirst = 200 * time.Millisecond
	// RetryMost bounds the range while coordinators cannot be reached, have too much to do
	// or do not know the instance: the leader binds a new CVM within moments, unless it has
	// so many to bind that being asked holds it up. RetryTurn bounds it while they answer
	// that it is not this Boot's turn, which may change at any moment.
	RetryMost = 10 * time.Second
	RetryTurn = 3 * time.Second
	// RetryWait is the longest time that a coordinator may put a Boot off for.
	RetryWait = 30 * time.Second
)

// RetrySpan is the range from which a Boot draws its pause before it asks for
// admission again, after its attempt-th try, from 1, was answered with code. It
// doubles from RetryFirst up to a bound that depends on the code.
func RetrySpan(code Code, attempt int) time.Duration {
	most := RetryMost
	switch code { //nolint:exhaustive // the rest is not about whose turn it is
	case CodeInstanceConflict, CodeInstanceMismatch, CodeRevisionNotAllowed,
		CodeGateUnreadable, CodeSecretNoValue, CodeAdmissionRejected, CodeNonceInvalid:
		most = RetryTurn
	}
	return min(RetryFirst<<min(max(attempt-1, 0), 16), most)
}

var codeForm = regexp.MustCompile(`\b[A-Z]{2,}(?:_[A-Z]+)+\b`)

// CodeIn is the first text of a code's form within text; "" when there is none.
func CodeIn(text string) string { return codeForm.FindString(text) }
