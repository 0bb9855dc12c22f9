package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
	"cadre.dev/local/internal/initctl"
	"cadre.dev/local/internal/kmsauth"
)

// local serves everything under /_local/, which no real cloud offers.
func (s *Server) local() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /faults":                    s.listFaults,
		"POST /faults":                   s.addFault,
		"DELETE /faults":                 s.clearFaults,
		"DELETE /faults/{id}":            s.clearFaults,
		"GET /calls":                     s.listCalls,
		"DELETE /calls":                  s.clearCalls,
		"GET /settings":                  s.getSettings,
		"PATCH /settings":                s.patchSettings,
		"GET /gateway":                   s.gateway,
		"GET /images":                    s.containerImages,
		"GET /network/{cvm}":             s.getNetwork,
		"PUT /network/{cvm}":             s.putNetwork,
		"POST /network/{cvm}/rebind":     s.rebind,
		"GET /firewall":                  s.getFirewall,
		"PUT /firewall":                  s.putFirewall,
		"PUT /collateral":                s.putCollateral,
		"GET /registry":                  s.getRegistry,
		"PUT /registry":                  s.putRegistry,
		"GET /rendezvous":                s.getRendezvous,
		"POST /rendezvous/{verb}":        s.switchRendezvous,
		"GET /cvms":                      s.localCVMs,
		"GET /cvms/{cvm}":                s.localCVM,
		"GET /cvms/{cvm}/logs/{service}": s.logs,
		"POST /cvms/{cvm}/kill":          s.kill,
		"POST /cvms/{cvm}/pause":         s.hold(true),
		"POST /cvms/{cvm}/resume":        s.hold(false),
		"POST /cvms/{cvm}/exec":          s.exec,
		"POST /cvms/{cvm}/isolate":       s.link(false),
		"POST /cvms/{cvm}/rejoin":        s.link(true),
		"POST /cvms/{cvm}/lose-disk":     s.loseDisk,
		"POST /cvms/{cvm}/copy-seed":     s.copySeed,
		"POST /cvms/{cvm}/evidence":      s.evidence,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" /_local"+path, s.wrapLocal(h))
	}
	if s.cfg.Hosts != nil {
		mux.Handle("/_local/hosts", s.cfg.Hosts)
		mux.Handle("/_local/hosts/", s.cfg.Hosts)
	}
	return mux
}

// wrapLocal shows the whole error: its reader operates this machine.
func (s *Server) wrapLocal(h handler) http.Handler {
	return s.wrap(func(r *http.Request) (int, any, error) {
		code, body, err := h(r)
		var known *cloud.Error
		if err != nil && !errors.As(err, &known) {
			return http.StatusBadRequest, map[string]any{"detail": err.Error()}, nil
		}
		return code, body, err
	})
}

func (s *Server) containerImages(*http.Request) (int, any, error) {
	list := any([]string{})
	if s.cfg.ContainerImages != nil {
		list = s.cfg.ContainerImages()
	}
	return http.StatusOK, map[string]any{"images": list}, nil
}

func (s *Server) getRegistry(*http.Request) (int, any, error) {
	return http.StatusOK, s.cfg.Registry(), nil
}

// putRegistry makes the registry slow for guests, or quick again.
func (s *Server) putRegistry(r *http.Request) (int, any, error) {
	var req struct {
		Slow *bool `json:"slow"`
	}
	if err := decodeLocal(r, &req); err != nil {
		return 0, nil, err
	}
	if req.Slow == nil {
		return 0, nil, errors.New("slow: is missing; give true, or false to let the pulls end")
	}
	s.cfg.SlowRegistry(*req.Slow)
	return s.getRegistry(r)
}

func (s *Server) listFaults(*http.Request) (int, any, error) {
	return http.StatusOK, s.faults.List(), nil
}

func (s *Server) addFault(r *http.Request) (int, any, error) {
	var f fault.Fault
	if err := decodeLocal(r, &f); err != nil {
		return 0, nil, err
	}
	if err := f.Check(); err != nil {
		return 0, nil, err
	}
	f, err := s.faults.Add(f)
	return http.StatusCreated, f, err
}

func (s *Server) clearFaults(r *http.Request) (int, any, error) {
	id := 0
	if text := r.PathValue("id"); text != "" {
		var err error
		if id, err = strconv.Atoi(text); err != nil {
			return 0, nil, err
		}
	}
	s.faults.Clear(id)
	return http.StatusNoContent, nil, nil
}

// listCalls adds counts by CVM and "METHOD action", action being the path's tail
// after the CVM.
func (s *Server) listCalls(r *http.Request) (int, any, error) {
	calls := s.calls.Calls(r.URL.Query().Get("cvm"))
	counts := map[string]map[string]int{}
	for _, c := range calls {
		if c.Executed < 200 || c.Executed > 299 {
			continue
		}
		rest, _ := strings.CutPrefix(c.Path, "/api/v1/")
		action := rest
		if tail, ok := strings.CutPrefix(rest, "cvms/"); ok {
			_, action, _ = strings.Cut(tail, "/")
		} else if strings.HasPrefix(rest, "apps/") {
			action = rest[strings.LastIndexByte(rest, '/')+1:]
		} else if method, ok := strings.CutPrefix(rest, "/prpc/"); ok {
			action = strings.TrimPrefix(method, "Teepod.")
		}
		if counts[c.CVM] == nil {
			counts[c.CVM] = map[string]int{}
		}
		counts[c.CVM][strings.TrimSpace(c.Method+" "+action)]++
	}
	return http.StatusOK, map[string]any{"calls": calls, "executed": counts}, nil
}

func (s *Server) clearCalls(*http.Request) (int, any, error) {
	s.calls.Clear()
	return http.StatusNoContent, nil, nil
}

func (s *Server) getSettings(*http.Request) (int, any, error) {
	return http.StatusOK, s.cfg.Cloud.Settings(), nil
}

func (s *Server) patchSettings(r *http.Request) (int, any, error) {
	set := s.cfg.Cloud.Settings()
	if err := decodeLocal(r, &set); err != nil {
		return 0, nil, err
	}
	if err := kmsauth.CheckURL(set.KMSAuth); err != nil {
		return 0, nil, fmt.Errorf("kms_auth: %w", err)
	}
	if err := cloud.CheckVMMVersion(set.VMMVersion); err != nil {
		return 0, nil, fmt.Errorf("vmm_version: %w", err)
	}
	s.cfg.Cloud.SetSettings(set)
	return http.StatusOK, set, nil
}

func (s *Server) gateway(*http.Request) (int, any, error) {
	return http.StatusOK, s.cfg.Gateway(), nil
}

func (s *Server) localView(ctx context.Context, v cloud.CVM) map[string]any {
	view := map[string]any{
		"name": v.Name, "vm_uuid": v.VMUUID, "id": v.ID, "app_id": v.AppID, "instance_id": v.InstanceID, "status": v.Status,
		"compose_hash": v.ComposeHash, "os_image": v.OSImage, "boots": v.Boots, "boot_error": cmp.Or(v.BootDetail, v.BootError), "boot_progress": v.BootProgress,
		"progress": v.Progress, "logs": s.cfg.LogDir(v.VMUUID), "address": nil, "services": []any{},
	}
	if host, state := s.cfg.Cloud.HostView(v); host != "" {
		view["host"], view["status"] = host, state
	}
	if m, ok := s.cfg.Cloud.Machine(v.VMUUID); ok {
		view["address"] = m.Addr().String()
		if services, err := m.Services(ctx); err == nil {
			view["services"] = services
		}
	}
	return view
}

func (s *Server) localCVMs(r *http.Request) (int, any, error) {
	out := []any{}
	for _, v := range s.cfg.Cloud.List("") {
		out = append(out, s.localView(r.Context(), v))
	}
	return http.StatusOK, out, nil
}

func (s *Server) localCVM(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.localView(r.Context(), v), nil
}

func (s *Server) kill(r *http.Request) (int, any, error) {
	return http.StatusNoContent, nil, s.cfg.Cloud.Kill(r.PathValue("cvm"))
}

func (s *Server) hold(stop bool) handler {
	return func(r *http.Request) (int, any, error) {
		h := initctl.Hold{Stop: stop}
		var req struct {
			Service string `json:"service"`
		}
		if err := decodeLocal(r, &req); err != nil {
			return 0, nil, err
		}
		h.Service = req.Service
		m, err := s.cfg.Cloud.Running(r.PathValue("cvm"))
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, m.Hold(r.Context(), h)
	}
}

func (s *Server) exec(r *http.Request) (int, any, error) {
	var e initctl.Exec
	if err := decodeLocal(r, &e); err != nil {
		return 0, nil, err
	}
	m, err := s.cfg.Cloud.Running(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	out, err := m.Exec(r.Context(), e)
	return http.StatusOK, out, err
}

func (s *Server) link(up bool) handler {
	return func(r *http.Request) (int, any, error) {
		m, err := s.cfg.Cloud.Running(r.PathValue("cvm"))
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, m.SetLink(up)
	}
}

func (s *Server) loseDisk(r *http.Request) (int, any, error) {
	return http.StatusNoContent, nil, s.cfg.Cloud.LoseDisk(r.PathValue("cvm"))
}

func (s *Server) copySeed(r *http.Request) (int, any, error) {
	var req struct {
		From string `json:"from"`
	}
	if err := decodeLocal(r, &req); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, s.cfg.Cloud.CopySeed(req.From, r.PathValue("cvm"))
}

func (s *Server) evidence(r *http.Request) (int, any, error) {
	var f attestsim.Faults
	if err := decodeLocal(r, &f); err != nil {
		return 0, nil, err
	}
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	s.cfg.EvidenceFaults(v.VMUUID, f)
	return http.StatusNoContent, nil, nil
}

const defaultTail = 64 << 10

// logs answers the last bytes of a service's log; service "cvm" is pid 1's.
func (s *Server) logs(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	name := r.PathValue("service")
	if strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
		return 0, nil, errors.New("service: is not a name")
	}
	f, err := os.Open(filepath.Join(s.cfg.LogDir(v.VMUUID), name+".log"))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	tail := int64(atLeast(r.URL.Query().Get("tail"), 1, defaultTail))
	if _, err := f.Seek(max(0, info.Size()-tail), io.SeekStart); err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, tail))
	return http.StatusOK, raw{"text/plain; charset=utf-8", text}, err
}
