// Command cadre-load works on a PostgreSQL cluster (-target postgres), on a stream of NATS
// (-target nats), on a hash of Redis (-target redis), on a topic of a Kafka cluster (-target kafka)
// or on registers in an etcd cluster (-target etcd) in a closed loop, keeps a journal, and serves the
// figures on the loopback of its CVM. The journal of writes to PostgreSQL, NATS, Redis and Kafka
// outlives power cuts, so that the verdict is about all writes that ever were acknowledged.
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cadre.dev/demo/load"
	"cadre.dev/demo/load/hosts"
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
	var o options
	flags := flag.NewFlagSet("cadre-load", flag.ContinueOnError)
	flags.StringVar(&o.target, "target", "postgres", "the system under load: postgres, nats, redis, etcd or kafka")
	flags.StringVar(&o.dsn, "dsn", "", "postgres: libpq connection string; several hosts are tried in order")
	flags.StringVar(&o.route, "route", "", "postgres: connection string of a second load, over a route to the leader")
	flags.StringVar(&o.pooled, "pooled", "", "postgres: connection string of a third load, over a route with a pooler")
	flags.IntVar(&o.others, "others", 2, "postgres: writers of the second and of the third load")
	flags.DurationVar(&o.pooledDeadline, "pooled-deadline", 15*time.Second, "postgres: deadline of one attempt of the third load, longer than its route holds")
	flags.StringVar(&o.endpoints, "endpoints", "", "nats, etcd, kafka: host:port of every member, separated by commas; redis: of every Sentinel")
	flags.IntVar(&o.keys, "keys", 5, "etcd: number of registers")
	flags.StringVar(&o.hosts, "hosts", "", "hosts file with the Peers' names")
	flags.IntVar(&o.writers, "writers", 4, "writers or clients at once")
	flags.DurationVar(&o.interval, "interval", 20*time.Millisecond, "time between two attempts of one writer")
	flags.DurationVar(&o.deadline, "deadline", 3*time.Second, "deadline of one attempt")
	flags.StringVar(&o.journal, "journal", "", "file that gets one JSON line for each attempt; with postgres, nats and redis the next start continues it, and -route and -pooled have files next to it, name-route.jsonl")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:9180", "address of the figures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.hosts != "" {
		o.lookup = hosts.File(o.hosts)
	}
	switch o.target {
	case "postgres":
		return o.postgres(ctx)
	case "nats":
		return o.one(ctx, func() (system, error) { return load.NewNATS(o.endpoints, o.lookup) })
	case "redis":
		return o.one(ctx, func() (system, error) { return load.NewRedis(o.endpoints, o.lookup) })
	case "etcd":
		return o.etcd(ctx)
	case "kafka":
		return o.kafka(ctx)
	default:
		return fmt.Errorf("-target %q: use postgres, nats, redis, etcd or kafka", o.target)
	}
}

type options struct {
	target, dsn, route, pooled, endpoints, hosts, journal, listen string

	writers, others, keys              int
	interval, deadline, pooledDeadline time.Duration

	lookup func(context.Context, string) ([]string, error)
}

// postgres writes in each way that is given. The direct one comes first: it is ready before
// anything is served. The others begin when their routes lead somewhere.
func (o options) postgres(ctx context.Context) (err error) {
	if o.journal == "" {
		return errors.New("-journal: name a file that outlives this machine's power")
	}
	var lanes lanes
	for _, l := range []struct {
		way      load.Way
		flag     string
		dsn      string
		writers  int
		deadline time.Duration
	}{
		{load.Direct, "-dsn", o.dsn, o.writers, o.deadline},
		{load.Route, "-route", o.route, o.others, o.deadline},
		{load.Pooled, "-pooled", o.pooled, o.others, o.pooledDeadline},
	} {
		if l.dsn == "" && l.way != load.Direct {
			continue
		}
		target, err := load.NewPostgres(l.way, l.dsn, o.lookup)
		if err != nil {
			return fmt.Errorf("%s: %w", l.flag, err)
		}
		lanes = append(lanes, &lane{
			way: l.way, target: target, journalPath: journalOf(o.journal, l.way),
			config: load.Config{Writers: l.writers, Interval: o.interval, Deadline: l.deadline},
		})
	}
	defer func() { err = errors.Join(err, lanes.close()) }()
	if err := lanes[0].open(ctx); err != nil {
		return err
	}
	return serve(ctx, o.listen, lanes.run, lanes.handler)
}

// one writes to a system in one way.
func (o options) one(ctx context.Context, open func() (system, error)) (err error) {
	if o.journal == "" {
		return errors.New("-journal: name a file that outlives this machine's power")
	}
	target, err := open()
	if err != nil {
		return fmt.Errorf("-endpoints: %w", err)
	}
	one := lanes{{way: load.Direct, target: target, journalPath: o.journal,
		config: load.Config{Writers: o.writers, Interval: o.interval, Deadline: o.deadline}}}
	defer func() { err = errors.Join(err, one.close()) }()
	if err := one[0].open(ctx); err != nil {
		return err
	}
	return serve(ctx, o.listen, one.run, one.handler)
}

func (o options) etcd(ctx context.Context) (err error) {
	store, err := load.NewEtcd(strings.Split(o.endpoints, ","), strconv.FormatInt(time.Now().UnixNano(), 36), o.lookup)
	if err != nil {
		return fmt.Errorf("-endpoints: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := prepare(ctx, "the etcd members", store.Ready); err != nil {
		return err
	}
	out, closeOut, err := registerFile(o.journal)
	if err != nil {
		return err
	}
	defer closeOut()
	r := load.NewRegisters(load.RegisterConfig{
		Clients: o.writers, Keys: o.keys, Interval: o.interval, Deadline: o.deadline,
	}, store, load.NewHistory(out))
	run := func(ctx context.Context) error { r.Run(ctx); return nil }
	return serve(ctx, o.listen, run, func(stop func()) http.Handler { return load.RegisterHandler(r, stop) })
}

func (o options) kafka(ctx context.Context) (err error) {
	if o.journal == "" {
		return errors.New("-journal: name a file that outlives this machine's power")
	}
	target, err := load.NewKafka(strings.Split(o.endpoints, ","), o.lookup)
	if err != nil {
		return fmt.Errorf("-endpoints: %w", err)
	}
	defer target.Close()
	if err := prepare(ctx, "the brokers", target.Prepare); err != nil {
		return err
	}
	j, err := load.OpenJournal(o.journal, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	w := load.NewWriter(load.Config{Writers: o.writers, Interval: o.interval, Deadline: o.deadline}, target, j)
	return serve(ctx, o.listen, w.Run, func(stop func()) http.Handler { return load.Handler(j, target, stop) })
}

// prepare waits until the system under load is ready: the load may boot before it.
func prepare(ctx context.Context, what string, ready func(context.Context) error) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		fmt.Fprintf(os.Stderr, "cadre-load: waiting for %s: %v\n", what, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// registerFile gets one JSON line for each operation of this run, whose registers are its
// own; a broken disk must not stop the measurement.
func registerFile(path string) (func(load.RegisterOp), func(), error) {
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
	return func(op load.RegisterOp) { _ = encode.Encode(op) },
		func() { _ = buffered.Flush(); _ = file.Close() }, nil
}

// serve runs the load and its figures; handler gets the function that stops the load. Failed work
// ends both.
func serve(ctx context.Context, listen string, work func(context.Context) error, handler func(stop func()) http.Handler) error {
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	serving, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)
	var done sync.WaitGroup
	done.Go(func() {
		if err := work(writing); err != nil {
			stopServing(err)
		}
	})
	server := &http.Server{
		Addr:              listen,
		Handler:           handler(func() { stopWriting(); done.Wait() }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	stop := context.AfterFunc(serving, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(closing)
	})
	defer stop()
	err := server.ListenAndServe()
	stopWriting()
	done.Wait()
	if cause := context.Cause(serving); cause != nil && ctx.Err() == nil {
		return cause
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the figures on %s: %w", listen, err)
}

const ctlUsage = "usage: cadre-load ctl [-of route|pooled|all] summary [FROM] [TO] | verify | check | stop"

// ctl asks a running load: ctl summary [from] [to] | verify | check | stop. -of names one of the
// additional loads, or all loads.
func ctl(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cadre-load ctl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	of := flags.String("of", "", "")
	at := flags.String("listen", "127.0.0.1:9180", "")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errors.Join(err, errors.New(ctlUsage))
	}
	args = flags.Args()
	method, path := http.MethodPost, "/"+args[0]
	if *of != "" {
		path = "/" + *of + path
	}
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
	req, err := http.NewRequestWithContext(ctx, method, "http://"+*at+path, nil)
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
