package envoy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerWithin bounds one question.
	answerWithin = 2 * time.Second
	// answerMost bounds one answer; a thousand endpoints take about 700 KiB.
	answerMost = 4 << 20
)

// admin is the path of an Envoy's admin socket.
type admin string

// ask sends one request on its own connection; any status except 200 is an error.
func (a admin) ask(ctx context.Context, method, path string) (text []byte, err error) {
	err = a.connected(ctx, func(conn *net.UnixConn) error {
		var status int
		status, text, err = ask(ctx, conn, method, path)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("envoy answers %s with %d: %.100s", path, status, text)
		}
		return err
	})
	return text, err
}

// connected calls f with a connection whose reads end after answerWithin.
func (a admin) connected(ctx context.Context, f func(*net.UnixConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", string(a))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // read to its end or given up
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	at, is := conn.(*net.UnixConn)
	if !is {
		return fmt.Errorf("dial %s: it is a %T", a, conn)
	}
	return f(at)
}

func ask(ctx context.Context, conn net.Conn, method, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // the connection ends with it
	text, err := io.ReadAll(io.LimitReader(res.Body, answerMost+1))
	if err == nil && len(text) > answerMost {
		err = fmt.Errorf("envoy's answer to %s has more than %d bytes", path, answerMost)
	}
	return res.StatusCode, text, err
}

// serverInfo is an Envoy's report about itself.
type serverInfo struct {
	State string `json:"state"`
	Node  struct {
		ID string `json:"id"`
	} `json:"node"`
}

// find holds on to the process behind the socket.
func (a admin) find(ctx context.Context) (p *process, info serverInfo, err error) {
	err = a.connected(ctx, func(conn *net.UnixConn) error {
		pid, err := peer(conn)
		if err != nil {
			return err
		}
		if p, err = open(pid); err != nil {
			return err
		}
		// The listener has answered, so its pid was still the same process's when it was opened.
		_, text, err := ask(ctx, conn, http.MethodGet, "/server_info")
		if err == nil {
			err = json.Unmarshal(text, &info)
		}
		return err
	})
	if err != nil {
		if p != nil {
			p.release()
		}
		return nil, serverInfo{}, err
	}
	go p.wait()
	return p, info, nil
}

// peer is the process that listens at the other end.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		cred   *unix.Ucred
		failed error
	)
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("identify the listener: %w", err)
	}
	if cred.Pid <= 0 {
		return 0, errors.New("identify the listener: it is in another pid namespace")
	}
	return int(cred.Pid), nil
}

// look asks how it is.
func (a admin) look(ctx context.Context) seen {
	out := seen{}
	word, err := a.ready(ctx)
	if err == nil && word == "LIVE" {
		var text []byte
		if text, err = a.ask(ctx, http.MethodGet, "/stats?filter=^(listener_manager%5C.(lds%5C.update_.*|total_listeners_active)|cluster_manager%5C.cds%5C.update_.*|control_plane%5C.connected_state)$"); err == nil {
			f := figures(text)
			out.listeners = f["listener_manager.total_listeners_active"]
			out.connected = f["control_plane.connected_state"] > 0
			out.accepted = f["listener_manager.lds.update_success"] + f["cluster_manager.cds.update_success"]
			out.refused = f["listener_manager.lds.update_rejected"] + f["cluster_manager.cds.update_rejected"]
		}
	}
	out.at, out.answered, out.ready = time.Now(), err == nil, word
	return out
}

// ready returns Envoy's readiness word; Envoy answers 503 with any word except LIVE.
func (a admin) ready(ctx context.Context) (word string, err error) {
	err = a.connected(ctx, func(conn *net.UnixConn) error {
		_, text, err := ask(ctx, conn, http.MethodGet, "/ready")
		word = strings.TrimSpace(string(text))
		return err
	})
	return word, err
}

// drain stops the acceptance of connections from other machines; existing connections continue.
func (a admin) drain(ctx context.Context) error {
	for _, path := range []string{"/healthcheck/fail", "/drain_listeners?inboundonly"} {
		if _, err := a.ask(ctx, http.MethodPost, path); err != nil {
			return err
		}
	}
	return nil
}

// open counts the connections that it has accepted and that are not over.
func (a admin) open(ctx context.Context) (int, error) {
	text, err := a.ask(ctx, http.MethodGet, "/stats?filter=^listener%5C.[0-9._]%2B%5C.downstream_cx_active$")
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, n := range figures(text) {
		sum += n
	}
	return sum, nil
}

// figures reads lines of "name: number".
func figures(text []byte) map[string]int {
	out := map[string]int{}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if n, err := strconv.Atoi(value); err == nil {
			out[name] = n
		}
	}
	return out
}

// Cluster is an Envoy's view of one upstream.
type Cluster struct {
	Name      string
	Endpoints []Endpoint
}

// Endpoint is an endpoint of a cluster.
type Endpoint struct {
	Address netip.AddrPort
	// Health is the coordinator's status, HEALTHY for instance, and Healthy whether Envoy sends it
	// connections.
	Health  string
	Healthy bool
}

// parseClusters reads the answer to /clusters?format=json: the clusters from coordinators, without
// those of the bootstrap.
func parseClusters(text []byte) ([]Cluster, error) {
	var answer struct {
		Clusters []struct {
			Name  string `json:"name"`
			Given bool   `json:"added_via_api"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Address string `json:"address"`
						Port    uint16 `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
				Health struct {
					EDS          string `json:"eds_health_status"`
					FailedActive bool   `json:"failed_active_health_check"`
					Outlier      bool   `json:"failed_outlier_check"`
				} `json:"health_status"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("read envoy's clusters: %w", err)
	}
	var out []Cluster
	for _, c := range answer.Clusters {
		if !c.Given {
			continue
		}
		cluster := Cluster{Name: c.Name}
		for _, h := range c.Hosts {
			at, err := netip.ParseAddr(h.Address.Socket.Address)
			if err != nil {
				continue // a name or a pipe: none of ours
			}
			cluster.Endpoints = append(cluster.Endpoints, Endpoint{
				Address: netip.AddrPortFrom(at, h.Address.Socket.Port), Health: h.Health.EDS,
				Healthy: h.Health.EDS == "HEALTHY" && !h.Health.FailedActive && !h.Health.Outlier,
			})
		}
		out = append(out, cluster)
	}
	return out, nil
}
