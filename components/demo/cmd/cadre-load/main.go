// Command cadre-load writes to a PostgreSQL cluster in a closed loop, keeps a
// journal, and serves the figures on the loopback of its CVM.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"cadre.dev/demo/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "ctl" {
		return ctl(ctx, args[1:], os.Stdout)
	}
	flags := flag.NewFlagSet("cadre-load", flag.ContinueOnError)
	dsn := flags.String("dsn", "", "libpq connection string; several hosts are tried in order")
	hosts := flags.String("hosts", "", "hosts file with the Peers' names")
	writers := flags.Int("writers", 4, "writers at once")
	interval := flags.Duration("interval", 20*time.Millisecond, "time between two attempts of one writer")
	deadline := flags.Duration("deadline", 3*time.Second, "deadline of one attempt")
	journal := flags.String("journal", "", "file that gets one JSON line for each attempt")
	listen := flags.String("listen", "127.0.0.1:9180", "address of the figures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var lookup func(context.Context, string) ([]string, error)
	if *hosts != "" {
		lookup = load.HostsFile(*hosts)
	}
	target, err := load.NewPostgres(*dsn, lookup)
	if err != nil {
		return fmt.Errorf("-dsn: %w", err)
	}
	if err := prepare(ctx, target); err != nil {
		return err
	}
	out, closeOut, err := journalFile(*journal)
	if err != nil {
		return err
	}
	defer closeOut()
	j := load.NewJournal(out)
	cfg := load.Config{Writers: *writers, Interval: *interval, Deadline: *deadline}
	return serve(ctx, *listen, load.NewWriter(cfg, target, j), j, target)
}

// prepare waits until the database takes the table: the load may boot before it.
func prepare(ctx context.Context, target *load.Postgres) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := target.Prepare(attempt)
		cancel()
		if err == nil {
			return nil
		}
		fmt.Fprintln(os.Stderr, "cadre-load: waiting for the database:", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// journalFile appends one JSON line for each Op; a broken disk must not stop the measurement.
func journalFile(path string) (func(load.Op), func(), error) {
	if path == "" {
		return nil, func() {}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, nil, fmt.Errorf("create the journal's folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	buffered := bufio.NewWriterSize(file, 1<<16)
	encode := json.NewEncoder(buffered)
	return func(op load.Op) { _ = encode.Encode(op) },
		func() { _ = buffered.Flush(); _ = file.Close() }, nil
}

func serve(ctx context.Context, listen string, w *load.Writer, j *load.Journal, target load.Target) error {
	writing, stopWriting := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { w.Run(writing) })
	server := &http.Server{
		Addr:              listen,
		Handler:           load.Handler(j, target, func() { stopWriting(); done.Wait() }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(closing)
	}()
	err := server.ListenAndServe()
	stopWriting()
	done.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the figures on %s: %w", listen, err)
}

// ctl asks a running load: ctl summary [from] [to] | verify | stop.
func ctl(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: cadre-load ctl summary [FROM] [TO] | verify | stop")
	}
	method, path := http.MethodPost, "/"+args[0]
	if args[0] == "summary" {
		method = http.MethodGet
		var query []string
		for i, name := range []string{"from", "to"} {
			if len(args) > i+1 && args[i+1] != "" {
				query = append(query, name+"="+args[i+1])
			}
		}
		path += "?" + strings.Join(query, "&")
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:9180"+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	_, err = out.Write(body)
	return err
}
