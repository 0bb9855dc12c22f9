package punch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"
)

// helperEnv makes the test binary a host of the lab: a process in a network namespace of
// its own that gets commands over its standard input.
const helperEnv = "CADRE_PUNCH_HELPER"

// order is one line to a helper, report one line back.
type order struct {
	Do          string
	Reflectors  []string
	ListenPort  uint16
	Hosts       bool
	Remote      []Candidate
	Controlling bool
	OneWay      time.Duration
	For         time.Duration
}

type report struct {
	Candidates []Candidate
	OneWay     time.Duration
	Kind       Kind
	How        How
	Took       time.Duration
	Info       Info
	Mbps       []int // of each second
	Changed    bool
	Err        string
	NoPath     bool
}

// helper carries out orders until there are no more.
func helper(in io.Reader, out io.Writer) int {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var h host
	defer h.close()
	for {
		var o order
		if err := dec.Decode(&o); err != nil {
			return 0
		}
		r, err := h.do(o)
		if err != nil {
			r.Err, r.NoPath = err.Error(), errors.Is(err, ErrNoConnection)
		}
		if err := enc.Encode(r); err != nil {
			return 1
		}
	}
}

// host is the state of a helper.
type host struct {
	local *Local
	conn  *Conn
}

func (h *host) do(o order) (r report, err error) {
	switch o.Do {
	case "gather":
		h.close()
		c := Config{Reflectors: o.Reflectors, ListenPort: o.ListenPort, Hosts: o.Hosts}
		if os.Getenv(helperEnv) == "debug" {
			c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		h.local, err = Gather(context.Background(), c)
		if err == nil {
			r.Candidates, r.OneWay = h.local.Candidates(), h.local.OneWay()
		}
	case "connect":
		begin := time.Now()
		h.conn, err = h.local.Connect(context.Background(), o.Remote, o.Controlling, o.OneWay)
		r.Took = time.Since(begin)
		if err == nil {
			r.Kind, r.How = h.conn.Kind(), h.conn.How()
		}
	case "ping": // both sides, one controlling
		r.Took, err = h.ping(o.Controlling)
	case "check":
		r.Changed = CheckRTT(h.conn, pings(o.OneWay*2))
	case "send":
		buf := make([]byte, 128<<10)
		begin := time.Now()
		for err == nil && time.Since(begin) < o.For {
			_, err = h.conn.Write(buf)
		}
		_ = h.conn.tcp.CloseWrite()
	case "receive":
		r.Mbps, err = h.receive()
	case "close":
		h.close()
	}
	if h.conn != nil {
		r.Info, _ = h.conn.Info()
	}
	return r, err
}

// receive reads to the end and returns the rate of each second.
func (h *host) receive() ([]int, error) {
	var rates []int
	buf := make([]byte, 128<<10)
	begin, n := time.Now(), 0
	for {
		got, err := h.conn.Read(buf)
		n += got
		if time.Since(begin) >= time.Second {
			rates = append(rates, int(float64(n)*8/1e6/time.Since(begin).Seconds()))
			begin, n = time.Now(), 0
		}
		if errors.Is(err, io.EOF) {
			return rates, nil
		}
		if err != nil {
			return rates, err
		}
	}
}

func (h *host) ping(first bool) (time.Duration, error) {
	buf := make([]byte, 8)
	begin := time.Now()
	if first {
		if _, err := h.conn.Write([]byte("question")); err != nil {
			return 0, err
		}
	}
	if _, err := io.ReadFull(h.conn, buf); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	if first {
		if string(buf) != "answered" {
			return 0, errors.New("wrong answer")
		}
		return took, nil
	}
	if string(buf) != "question" {
		return 0, errors.New("wrong question")
	}
	_, err := h.conn.Write([]byte("answered"))
	return 0, err
}

func (h *host) close() {
	if h.conn != nil {
		h.conn.reset()
		h.conn = nil
	}
	if h.local != nil {
		h.local.Close()
		h.local = nil
	}
}

// pings returns the given round trips one by one, and repeats the last.
func pings(rtts ...time.Duration) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		rtt := rtts[0]
		if len(rtts) > 1 {
			rtts = rtts[1:]
		}
		return rtt, nil
	}
}
