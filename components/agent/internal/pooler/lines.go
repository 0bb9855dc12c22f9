package pooler

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// sayEvery is how often equal lines are logged: in an outage, and while a client has a wrong
	// password, each try of each client makes such a line.
	sayEvery = 10 * time.Second
	// maxKinds bounds the number of distinct kinds, and with it the number of lines in each
	// sayEvery.
	maxKinds = 30
)

// saying is a line of PgBouncer's for the agent's log.
type saying struct {
	level slog.Level
	text  string
	// again counts the equal lines since the last logged one; 0 for the first.
	again int
}

// pacing decides which lines are logged: the first line of each kind at once, and then the newest
// line, each sayEvery, with the number of lines since. The zero value is ready to use.
type pacing struct {
	kinds map[string]*kind
	// leftOut are lines of kinds beyond maxKinds, leftFrom is when the first of them was read.
	leftOut  int
	leftFrom time.Time
}

// kind is a group of equal lines.
type kind struct {
	at     time.Time // when one of them was passed on
	newest saying
}

// take takes a line read at now; it returns the lines to log.
func (p *pacing) take(now time.Time, level slog.Level, text string) []saying {
	out := p.due(now)
	name := kindOf(text)
	if one, known := p.kinds[name]; known {
		one.newest = saying{level, text, one.newest.again + 1}
		return out
	}
	if len(p.kinds) >= maxKinds {
		if p.leftOut++; p.leftOut == 1 {
			p.leftFrom = now
		}
		return out
	}
	if p.kinds == nil {
		p.kinds = map[string]*kind{}
	}
	p.kinds[name] = &kind{at: now}
	return append(out, saying{level: level, text: text})
}

// due are lines of before whose time has come.
func (p *pacing) due(now time.Time) []saying {
	var out []saying
	for _, name := range slices.Sorted(maps.Keys(p.kinds)) {
		one := p.kinds[name]
		switch {
		case now.Before(one.at.Add(sayEvery)):
		case one.newest.again == 0:
			delete(p.kinds, name)
		default:
			out = append(out, one.newest)
			one.at, one.newest = now, saying{}
		}
	}
	if p.leftOut > 0 && !now.Before(p.leftFrom.Add(sayEvery)) {
		out = append(out, saying{slog.LevelWarn, "lines of many other kinds were left out", p.leftOut})
		p.leftOut = 0
	}
	return out
}

// next is when due has something to do; zero: not before another line.
func (p *pacing) next() time.Time {
	var first time.Time
	for _, one := range p.kinds {
		if first.IsZero() || one.at.Before(first) {
			first = one.at
		}
	}
	if p.leftOut > 0 && (first.IsZero() || p.leftFrom.Before(first)) {
		first = p.leftFrom
	}
	if first.IsZero() {
		return first
	}
	return first.Add(sayEvery)
}

// whose matches PgBouncer's name of one connection: it differs between otherwise equal lines.
var whose = regexp.MustCompile(`^[CS]-0x[0-9a-f]+: |@[^ ]*:[0-9]+`)

func kindOf(text string) string { return whose.ReplaceAllString(text, "") }

// passLog copies PgBouncer's log to the agent's log, until pipe is closed.
func (p *Pooler) passLog(ctx context.Context, pipe io.Reader) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(pipe); in.Scan(); {
			lines <- in.Text()
		}
	}()
	var pace pacing
	timer := time.NewTimer(sayEvery)
	defer timer.Stop()
	for {
		var say []saying
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			level, text := parseLine(line)
			if level < slog.LevelWarn {
				p.log.Debug("pgbouncer says", "line", text)
				continue
			}
			say = pace.take(time.Now(), level, text)
		case now := <-timer.C:
			say = pace.due(now)
		}
		for _, s := range say {
			attrs := []any{"line", s.text}
			if s.again > 0 {
				attrs = append(attrs, "lines", s.again)
			}
			p.log.Log(ctx, s.level, "pgbouncer says", attrs...)
		}
		if at := pace.next(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
	}
}

// parseLine splits `2026-01-02 03:04:05.678 UTC [99] WARNING text`.
func parseLine(line string) (slog.Level, string) {
	_, rest, found := strings.Cut(line, "] ")
	word, text, _ := strings.Cut(rest, " ")
	if !found {
		return slog.LevelWarn, line // of the loader, or of a library
	}
	switch word {
	case "WARNING":
		return slog.LevelWarn, text
	case "ERROR", "FATAL":
		return slog.LevelError, text
	}
	return slog.LevelDebug, text
}
