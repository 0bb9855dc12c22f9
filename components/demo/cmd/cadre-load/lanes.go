package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"cadre.dev/demo/load"
)

// system is the system under load.
type system interface {
	load.Target
	// Prepare makes the place that is written to.
	Prepare(ctx context.Context) error
	// Highest is the highest id in it; 0 when there is none.
	Highest(ctx context.Context) (int64, error)
}

// lane is one way of writing to a system, with its journal.
type lane struct {
	way         load.Way
	target      system
	journalPath string
	config      load.Config

	mu      sync.Mutex // guards the following
	journal *load.Journal
}

// journalOf is the file of a way, next to the file of the direct one: journal.jsonl,
// journal-route.jsonl.
func journalOf(path string, way load.Way) string {
	if way == load.Direct {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + string(way) + ext
}

// open waits for the database and opens the journal.
func (l *lane) open(ctx context.Context) error {
	what := "the database"
	if l.way != load.Direct {
		what += ", way " + string(l.way)
	}
	if err := prepare(ctx, what, l.target.Prepare); err != nil {
		return err
	}
	// The table may hold rows of a journal that was lost with its disk.
	highest := int64(0)
	if err := prepare(ctx, what+", its table", func(ctx context.Context) (err error) {
		highest, err = l.target.Highest(ctx)
		return err
	}); err != nil {
		return err
	}
	j, err := load.OpenJournal(l.journalPath, highest)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.journal = j
	l.mu.Unlock()
	return nil
}

func (l *lane) opened() *load.Journal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal
}

// run writes until ctx ends, which may be before it has begun.
func (l *lane) run(ctx context.Context) error {
	if l.opened() == nil {
		if err := l.open(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("way %s: %w", l.way, err)
		}
	}
	j := l.opened()
	if j == nil {
		return nil
	}
	return load.NewWriter(l.config, l.target, j).Run(ctx)
}

// lanes are all of a process, the direct one first.
type lanes []*lane

// run runs all lanes. The failure of one ends all: a write that cannot be recorded is not measured.
func (ls lanes) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(ls))
	var all sync.WaitGroup
	for i, l := range ls {
		all.Go(func() {
			if errs[i] = l.run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (ls lanes) close() error {
	var errs []error
	for _, l := range ls {
		if j := l.opened(); j != nil {
			errs = append(errs, j.Close())
		}
	}
	return errors.Join(errs...)
}

// handler serves the figures of the direct way at load.Handler's paths, and each way's figures
// below its name. /all/summary and /all/verify answer {"direct": ..., "route": ...} for the ways
// that have begun. Stopping any way stops all.
func (ls lanes) handler(stop func()) http.Handler {
	mux := http.NewServeMux()
	for i, l := range ls {
		h := l.figures(stop)
		if i == 0 {
			mux.Handle("/", h)
		}
		mux.Handle("/"+string(l.way)+"/", http.StripPrefix("/"+string(l.way), h))
	}
	mux.HandleFunc("GET /all/summary", func(w http.ResponseWriter, r *http.Request) {
		from, to, err := load.Span(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answerEach(r.Context(), w, ls, func(_ context.Context, _ *lane, j *load.Journal) (load.Summary, error) {
			return j.Summary(from, to), j.Err()
		})
	})
	mux.HandleFunc("POST /all/verify", func(w http.ResponseWriter, r *http.Request) {
		answerEach(r.Context(), w, ls, func(ctx context.Context, l *lane, j *load.Journal) (load.Verdict, error) {
			return load.Verify(ctx, j, l.target)
		})
	})
	mux.HandleFunc("POST /all/stop", func(w http.ResponseWriter, _ *http.Request) {
		stop()
		_, _ = w.Write([]byte("{}\n"))
	})
	return mux
}

func (l *lane) figures(stop func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := l.opened()
		if j == nil {
			http.Error(w, "the way "+string(l.way)+" has not begun: its database did not answer yet", http.StatusServiceUnavailable)
			return
		}
		load.Handler(j, l.target, stop).ServeHTTP(w, r)
	})
}

// answerEach asks every way that has begun, and answers for all or with the first failure.
func answerEach[T any](ctx context.Context, w http.ResponseWriter, ls lanes, ask func(context.Context, *lane, *load.Journal) (T, error)) {
	said := map[load.Way]T{}
	for _, l := range ls {
		j := l.opened()
		if j == nil {
			continue
		}
		one, err := ask(ctx, l, j)
		if err != nil {
			http.Error(w, string(l.way)+": "+err.Error(), http.StatusBadGateway)
			return
		}
		said[l.way] = one
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said)
}
