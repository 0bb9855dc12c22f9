// Package webdemo is the program of the starter cluster: a web server that says which
// Slot answers, and asks every member of another group the same.
package webdemo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what one answer may cost, whatever the callers and the Peers do.
const (
	callTimeout = 3 * time.Second
	mostMembers = 256
	mostAnswer  = 4 << 10
)

// Web answers for one Slot.
type Web struct {
	// Slot that this is, and its release, any text.
	Slot, Release string
	// Call is the group whose members are asked on CallPort; empty asks nobody.
	Call     string
	CallPort int
	// Hosts is the file of "address name" lines that the agent keeps up to date.
	Hosts string
}

// Handler serves GET / and GET /healthz. An answer's first line is "<slot> release
// <release>"; each member that is asked adds its own first line, or why it has none.
// The status is 200 even then: what members say does not make this Slot unhealthy.
func (w Web) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, "ok\n")
	})
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, req *http.Request) {
		text := fmt.Sprintf("%s release %s\n", w.Slot, w.Release)
		if w.Call != "" {
			answers, err := w.ask(req.Context())
			if err != nil {
				text += fmt.Sprintf("  no member of %s is known: %v\n", w.Call, err)
			}
			text += strings.Join(answers, "")
		}
		out.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(out, text)
	})
	return mux
}

// ask gives one line for each member of the group that is called, in ordinal order.
func (w Web) ask(ctx context.Context) ([]string, error) {
	file, err := os.Open(w.Hosts)
	if err != nil {
		return nil, err
	}
	members, err := membersOf(file, w.Call)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := make([]string, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			said, err := firstLine(ctx, net.JoinHostPort(m.address, strconv.Itoa(w.CallPort)))
			if err != nil {
				said = m.name + " does not answer: " + err.Error()
			}
			answers[i] = "  " + said + "\n"
		})
	}
	asked.Wait()
	return answers, nil
}

// asking follows no redirect: a member says what it is, and not whom else to ask.
var asking = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func firstLine(ctx context.Context, at string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		return "", err
	}
	// A connection for each question: what is kept would be that of a Boot which is gone.
	req.Close = true
	resp, err := asking.Do(req)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	line, _, _ := strings.Cut(readSome(resp.Body), "\n")
	return line, nil
}

func readSome(r io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(r, mostAnswer))
	return string(text)
}

type member struct {
	name, address string
	ordinal       int
}

// membersOf finds the Slots of a group among the names of a hosts file.
func membersOf(file io.Reader, group string) ([]member, error) {
	var found []member
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		for _, name := range fields[1:] {
			of, ok := strings.CutPrefix(name, group+"-")
			if ordinal, err := strconv.Atoi(of); ok && err == nil && ordinal >= 0 {
				found = append(found, member{name: name, address: fields[0], ordinal: ordinal})
			}
		}
	}
	slices.SortFunc(found, func(a, b member) int { return a.ordinal - b.ordinal })
	return found[:min(len(found), mostMembers)], lines.Err()
}
