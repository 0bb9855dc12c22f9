package parent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// requestLimit and answerLimit bound one message each, in bytes.
	requestLimit = 256
	answerLimit  = 1024
)

// verb is the kind of a worker's request.
type verb string

const (
	// verbKey asks for the Boot key, as PKCS #8.
	verbKey verb = "key"
	// verbNewKey reports that the Boot has ended and requests the key of a new one.
	verbNewKey verb = "new-key"
	// verbRun asks how many workers there were before this one.
	verbRun verb = "run"
	// verbBeat reports that the worker makes progress.
	verbBeat verb = "beat"
	// verbListen asks for a socket.
	verbListen verb = "listen"
	// verbRelease reports that the worker no longer needs a socket.
	verbRelease verb = "release"
)

// name identifies a requested socket. Port 0 names a socket on any port, and the same socket each
// time.
type name struct{ network, address string }

func (n name) String() string { return n.network + " " + n.address }

// request is one message of a worker.
type request struct {
	verb verb
	name name // of listen and release
}

func (r request) encode() []byte {
	if r.name == (name{}) {
		return []byte(r.verb)
	}
	return []byte(string(r.verb) + " " + r.name.String())
}

// parseRequest reads a message strictly.
func parseRequest(data []byte) (request, error) {
	if len(data) > requestLimit {
		return request{}, fmt.Errorf("a request of %d bytes, at most %d are taken", len(data), requestLimit)
	}
	fields := strings.Split(string(data), " ")
	r := request{verb: verb(fields[0])}
	switch r.verb {
	case verbKey, verbNewKey, verbRun, verbBeat:
		if len(fields) == 1 {
			return r, nil
		}
	case verbListen, verbRelease:
		if len(fields) == 3 {
			r.name = name{network: fields[1], address: fields[2]}
			return r, nil
		}
	}
	return request{}, fmt.Errorf("not a request: %.40q", data)
}

// Answers begin with one of these; the requested data or an error's text follows.
const (
	answerYes = "yes "
	answerNo  = "no "
)

func encodeAnswer(value []byte, err error) []byte {
	if err == nil {
		return append([]byte(answerYes), value...)
	}
	text := answerNo + err.Error()
	return []byte(text[:min(len(text), answerLimit)])
}

func parseAnswer(data []byte) ([]byte, error) {
	if value, yes := strings.CutPrefix(string(data), answerYes); yes {
		return []byte(value), nil
	}
	if text, no := strings.CutPrefix(string(data), answerNo); no {
		if text == errFull.Error() {
			return nil, errFull
		}
		return nil, errors.New(text)
	}
	return nil, fmt.Errorf("not an answer: %.40q", data)
}

// errFull: the parent holds its maximum number of sockets.
var errFull = errors.New("the parent holds its maximum number of sockets")

// holds reports which sockets a parent keeps for its worker: TCP on loopback, and the two listeners
// of Sessions, whose names are sessions. UDP on loopback is left out: datagrams may be lost, and
// kept datagrams would get no answer.
func holds(n name, sessions []name) bool {
	for _, s := range sessions {
		if n == s {
			return true
		}
	}
	host, port, err := net.SplitHostPort(n.address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(host)
	if err != nil || !at.IsLoopback() {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	return n.network == "tcp" || n.network == "tcp4" || n.network == "tcp6"
}
