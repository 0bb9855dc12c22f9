package pooler

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func message(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

const ready = "Z\x00\x00\x00\x05I"

// say plays the server of a client, and discards the client's messages.
func say(t *testing.T, text string) *client {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	go func() {
		defer there.Close()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, _ = io.WriteString(there, text)
	}()
	return newClient(here)
}

func TestAnswers(t *testing.T) {
	columns := message('T', "\x00\x02database\x00"+strings.Repeat("x", 18)+"n\x00"+strings.Repeat("x", 18))
	done := message('C', "SHOW\x00") + ready
	row := message('D', "\x00\x02\x00\x00\x00\x04shop\xff\xff\xff\xff")
	for name, tc := range map[string]struct {
		said string
		rows int
		err  string // part of it; "": none
	}{
		"rows":                      {columns + row + row + done, 2, ""},
		"a refusal":                 {message('E', "SERROR\x00C08P01\x00Mnot paused\x00\x00") + ready, 0, "not paused"},
		"a login that is refused":   {message('E', "SFATAL\x00Mlogin rejected\x00\x00"), 0, "login rejected"},
		"a login with a password":   {message('R', "\x00\x00\x00\x05salt"), 0, "asks for a password"},
		"the end":                   {columns, 0, "EOF"},
		"a message that is too big": {"D\x7f\xff\xff\xff", 0, "bytes"},
		"a length that cannot be":   {"D\x00\x00\x00\x01", 0, "bytes"},
		"too much in sum":           {strings.Repeat(message('N', strings.Repeat("x", maxMessage-4)), maxAnswer/(maxMessage-4)+1), 0, "more than"},
		"rows without columns":      {row + done, 1, ""},
		"a row that is cut":         {columns + message('D', "\x00\x02\x00\x00\x00\x09sh") + done, 1, ""},
		"another command's tag":     {message('C', "WAIT_CLOSE\x00") + ready, 0, "WAIT_CLOSE"},
		"no tag":                    {row + ready, 0, "not its own"},
	} {
		rows, err := say(t, tc.said).query(t.Context(), "SHOW X")
		if len(rows) != tc.rows && tc.err == "" || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v; want %d rows, error with %q", name, rows, err, tc.rows, tc.err)
		}
	}
	rows, err := say(t, columns+row+done).query(t.Context(), "SHOW X")
	if err != nil || len(rows) != 1 || rows[0]["database"] != "shop" || len(rows[0]) != 1 {
		t.Errorf("%v, %v; want one row, the null left out", rows, err)
	}
}

func TestASilentConsoleIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	why := errors.New("why")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
	defer cancel()
	if _, err := newClient(here).query(ctx, "PAUSE"); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("T\x00\x00\x00\x06\x00\x01D\x00\x00\x00\x0a\x00\x01\x00\x00\x00\x00" + ready)
	f.Add("E\x00\x00\x00\x0aMno\x00\x00" + ready)
	f.Fuzz(func(t *testing.T, said string) {
		_, _ = say(t, said).query(t.Context(), "SHOW X")
	})
}
