package vmmapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cadre.dev/local/internal/cloud"
)

// guest passes a call to the guest agent of a VM.
func (e *endpoint) guest(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.PathValue("method"), "ProxiedGuestApi.")
	var answer call
	switch name {
	case "Shutdown":
		answer = onVM((*cloud.Cloud).ShutdownVM)
	case "ListContainers":
		answer = onGuest(r.Context(), containers)
	case "NetworkInfo":
		answer = onGuest(r.Context(), networkInfo)
	case "Info", "SysInfo":
		answer = onGuest(r.Context(), func(context.Context, cloud.Machine) (any, error) {
			return nil, fmt.Errorf("guests of the local cloud do not answer %s", name)
		})
	default:
		refuse(w, fmt.Errorf("Service not found: %s", name)) //nolint:staticcheck // the text of the real server
		return
	}
	e.serve(w, r, answer)
}

// onGuest is a call that the guest of a running VM answers.
func onGuest(ctx context.Context, ask func(context.Context, cloud.Machine) (any, error)) call {
	return take(func(e *endpoint, request vmID) (any, error) {
		if _, ok := e.cfg.Cloud.VMInfo(e.host, request.ID); !ok {
			return nil, errors.New("vm not found")
		}
		m, ok := e.cfg.Cloud.Machine(request.ID)
		if !ok {
			return nil, cloud.ErrNoGuest
		}
		return ask(ctx, m)
	})
}

func containers(ctx context.Context, m cloud.Machine) (any, error) {
	services, err := m.Services(ctx)
	out := []any{}
	for _, s := range services {
		out = append(out, map[string]any{"id": "", "names": []string{"/" + s.Name}, "image": "", "image_id": "", "created": 0, "state": s.State, "status": s.State})
	}
	return map[string]any{"containers": out}, err
}

func networkInfo(_ context.Context, m cloud.Machine) (any, error) {
	addresses := []any{map[string]any{"address": m.Addr().String(), "prefix": 30}}
	return map[string]any{
		"dns_servers": []any{}, "gateways": []any{}, "wg_info": "",
		"interfaces": []any{map[string]any{"name": "eth0", "addresses": addresses, "rx_bytes": 0, "tx_bytes": 0, "rx_errors": 0, "tx_errors": 0}},
	}, nil
}

const (
	defaultLines = 10_000
	maxLog       = 4 << 20
)

// logs answers the end of a log of a VM; channel serial is the guest's own log.
func (e *endpoint) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	file := map[string]string{"": "cvm.log", "serial": "cvm.log", "stdout": "cvm-init.log", "stderr": "cvm-init.log"}[q.Get("ch")]
	if file == "" {
		_, _ = fmt.Fprintf(w, "Unknown channel %s", q.Get("ch"))
		return
	}
	if _, ok := e.cfg.Cloud.VMInfo(e.host, q.Get("id")); !ok {
		return
	}
	text, err := tail(filepath.Join(e.cfg.LogDir(q.Get("id")), file))
	if err != nil {
		return // as for a log that is empty
	}
	lines, err := strconv.Atoi(q.Get("lines"))
	if err != nil || lines < 0 {
		lines = defaultLines
	}
	all := strings.SplitAfter(string(text), "\n")
	_, _ = io.WriteString(w, strings.Join(all[max(0, len(all)-1-lines):], ""))
}

func tail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-maxLog), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxLog))
}
