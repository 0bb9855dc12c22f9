package datagram

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"cadre.dev/overlay/internal/carrier"
	quic "github.com/apernet/quic-go"
)

// maxReason bounds the text of a reason in bytes. It has to fit into a packet
// of the smallest size with room to spare.
const maxReason = 256

// text is the text of a reason; the reason is optional.
func text(reason error) string {
	if reason == nil {
		return "closed"
	}
	return reason.Error()
}

// bounded makes a reason fit for the wire and for a log: valid, printable, on
// one line and short.
func bounded(s string) string {
	if len(s) > 4*maxReason {
		s = s[:4*maxReason]
	}
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	for len(s) > maxReason {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// describe states in our words why a connection ended. It leaves reset streams and
// deadlines unchanged.
func describe(err error) error {
	var (
		app       *quic.ApplicationError
		transport *quic.TransportError
		idle      *quic.IdleTimeoutError
	)
	switch {
	case errors.As(err, &app) && app.Remote:
		return fmt.Errorf("%w: closed by peer: %s", errLost, bounded(app.ErrorMessage))
	case errors.As(err, &app):
		return fmt.Errorf("%w: %s", errLost, bounded(app.ErrorMessage))
	case errors.As(err, &idle):
		return fmt.Errorf("%w: %w", errLost, carrier.ErrDead)
	case errors.As(err, &transport):
		return fmt.Errorf("%w: %s", errLost, bounded(transport.Error()))
	case err == nil:
		return errLost
	}
	return fmt.Errorf("%w: %s", errLost, bounded(err.Error()))
}

// errLost is a connection that ended without our doing.
var errLost = errors.New("connection lost")
