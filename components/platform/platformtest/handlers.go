package platformtest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// view must be called with mu held.
func (f *Fake) view(c *fakeCVM) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	shows, target := fakeView{c.status, c.hardware}, c.target
	if target != "" && time.Now().Before(c.shown) {
		shows, target = c.was, ""
	}
	return map[string]any{
		"id": c.id, "name": c.name, "app_id": "app_" + c.appID, "vm_uuid": c.uuid, "instance_id": orNull(c.instanceID),
		"status": shows.status, "in_progress": target != "", "progress": map[string]any{"target": orNull(target)},
		"compose_hash": c.hash, "encrypted_env_pubkey": f.publicKey(), "gateway": map[string]any{"base_domain": "gw.fake.test"},
		"node_info": map[string]any{"object_type": "node", "id": 3, "name": "node-3"},
		"os":        map[string]any{"name": shows.hardware.image},
		"resource":  map[string]any{"instance_type": shows.hardware.instanceType, "disk_in_gb": shows.hardware.diskGB},
	}
}

func (f *Fake) listApp(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []any{}
	for _, c := range f.cvms {
		f.settleLocked(c)
		if !c.gone && c.appID == r.PathValue("app") {
			out = append(out, f.view(c))
		}
	}
	reply(w, 200, out)
}

func (f *Fake) listAll(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page, _ := strconv.Atoi(r.FormValue("page"))
	size, _ := strconv.Atoi(r.FormValue("page_size"))
	all := []any{}
	for _, c := range f.cvms {
		if f.settleLocked(c); !c.gone {
			all = append(all, f.view(c))
		}
	}
	size = max(1, size)
	from := min(max(0, (page-1)*size), len(all))
	reply(w, 200, map[string]any{"items": all[from:min(from+size, len(all))], "total": len(all), "page": page,
		"page_size": size, "pages": (len(all) + size - 1) / size})
}

// withCVM finds the CVM that the path names and runs fn under the lock.
func (f *Fake) withCVM(fn func(*fakeCVM, body) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := readBody(r)
		if err != nil {
			reply(w, 422, map[string]any{"detail": []any{map[string]any{"loc": []any{"body"}, "msg": "not JSON", "type": "json"}}})
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.cvms {
			f.settleLocked(c)
			id := r.PathValue("cvm")
			if !c.gone && (id == c.id || id == c.name || id == strings.ReplaceAll(c.uuid, "-", "")) {
				status, v := fn(c, b)
				reply(w, status, v)
				return
			}
		}
		reply(w, 404, map[string]any{"error_code": "ERR-03-001", "message": "CVM not found", "request_id": "req-x"})
	}
}

func (f *Fake) provision(w http.ResponseWriter, r *http.Request) {
	b, err := readBody(r)
	file, _ := b["compose_file"].(map[string]any)
	if err != nil || b.text("name") == "" || body(file).text("docker_compose_file") == "" {
		reply(w, 422, map[string]any{"detail": "name and compose_file are required"})
		return
	}
	// The real server drops unknown keys, and their change is not made.
	appID, nonce := b.text("app_id"), b["nonce"]
	if _, whole := nonce.(float64); nonce != nil && (!whole || appID == "") {
		reply(w, 422, map[string]any{"detail": []any{map[string]any{"loc": []any{"body", "nonce"}, "msg": "want an integer, and app_id with it", "type": "value_error"}}})
		return
	}
	if appID == "" {
		appID = randomHex(20)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	hash := hashOf(file)
	hw := hardware{cmp.Or(b.text("image"), slug(fakeImages[0])), cmp.Or(b.text("instance_type"), fakeTypes[0]), cmp.Or(b.number("disk_size"), 20)}
	if problem := hw.problem(); problem != nil {
		reply(w, 400, problem)
		return
	}
	f.known[hash+appID] = composed{appID: appID, name: b.text("name"), hardware: hw}
	reply(w, 200, map[string]any{"app_id": "app_" + appID, "compose_hash": hash, "app_env_encrypt_pubkey": f.publicKey()})
}

// hashOf measures the document as it was sent: sorted and compact, as servers write it. A
// document without a pre-launch script gets the platform's own.
func hashOf(file map[string]any) string {
	if script, _ := file["pre_launch_script"].(string); script == "" {
		file["pre_launch_script"] = "# the platform's own\n"
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if enc.Encode(file) != nil {
		return "" // a value decoded from JSON can be written as JSON
	}
	sum := sha256.Sum256(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:])
}

func (f *Fake) commit(w http.ResponseWriter, r *http.Request) {
	b, err := readBody(r)
	env, envErr := f.openEnv(b)
	if err != nil || envErr != nil {
		reply(w, 422, map[string]any{"detail": "bad request"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := b.text("compose_hash") + strings.TrimPrefix(b.text("app_id"), "app_")
	known, ok := f.known[key]
	if !ok {
		reply(w, 400, map[string]any{"detail": "compose hash is not provisioned"})
		return
	}
	c, err := f.newCVMLocked(known.name, known.appID, b.text("compose_hash"), env, known.hardware)
	if err != nil {
		reply(w, 400, map[string]any{"detail": err.Error()})
		return
	}
	known.revision = true
	f.known[key] = known
	reply(w, 200, map[string]any{"id": f.nextID, "name": c.name, "status": "pending"})
}

func (f *Fake) addInstance(w http.ResponseWriter, r *http.Request) {
	b, err := readBody(r)
	env, envErr := f.openEnv(b)
	if err != nil || envErr != nil {
		reply(w, 422, map[string]any{"detail": "bad request"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	app := r.PathValue("app")
	known := f.known[b.text("compose_hash")+app]
	if !known.revision {
		reply(w, 400, map[string]any{"detail": "compose_hash is not a revision of this app"})
		return
	}
	c, err := f.newCVMLocked(b.text("name"), app, b.text("compose_hash"), env, known.hardware)
	if err != nil {
		reply(w, 400, map[string]any{"detail": err.Error()})
		return
	}
	reply(w, 200, map[string]any{"vm_uuid": c.uuid, "name": c.name, "status": "pending", "app_id": c.appID})
}

func (f *Fake) provisionUpdate(c *fakeCVM, b body) (int, any) {
	delete(b, "update_env_vars") // of the call, not of the document
	hash := hashOf(b)
	if old := f.known[hash+c.appID]; !old.revision {
		f.known[hash+c.appID] = composed{appID: c.appID, name: b.text("name"), hardware: c.hardware}
	}
	return 200, map[string]any{"app_id": c.appID, "compose_hash": hash, "kms_info": map[string]any{"encrypted_env_pubkey": f.publicKey()}}
}

func (f *Fake) update(c *fakeCVM, b body) (int, any) {
	hash := b.text("compose_hash")
	known, ok := f.known[hash+c.appID]
	env, err := f.openEnv(b)
	switch {
	case !ok || err != nil:
		return 400, map[string]any{"detail": "compose hash is not provisioned"}
	case c.target != "":
		return 409, map[string]any{"detail": "another operation is in progress"}
	case c.hash == hash && env == nil:
		return 202, map[string]any{"status": "no_change"}
	}
	known.revision = true
	f.known[hash+c.appID] = known
	c.hash = hash
	if env != nil {
		c.env = env
	}
	f.beginLocked(c, "updating", "running")
	return 202, map[string]any{"status": "in_progress", "correlation_id": "op-" + randomHex(4)}
}

func (f *Fake) setImage(c *fakeCVM, b body) (int, any) {
	next := c.hardware
	next.image = b.text("os_image_name")
	return f.change(c, next)
}

func (f *Fake) resize(c *fakeCVM, b body) (int, any) {
	next := c.hardware
	next.instanceType = cmp.Or(b.text("instance_type"), next.instanceType)
	next.diskGB = cmp.Or(b.number("disk_size"), next.diskGB)
	if next.diskGB < c.hardware.diskGB {
		return 422, map[string]any{"detail": []any{map[string]any{"loc": []any{"body", "disk_size"}, "msg": "cannot shrink", "type": "value_error"}}}
	}
	return f.change(c, next)
}

// change boots c with other hardware.
func (f *Fake) change(c *fakeCVM, next hardware) (int, any) {
	problem := next.problem()
	switch {
	case c.target != "":
		return 409, map[string]any{"detail": "another operation is in progress"}
	case problem != nil:
		return 400, problem
	case next == c.hardware:
		return 202, map[string]any{"status": "no_change"}
	}
	c.was = fakeView{c.status, c.hardware}
	c.hardware = next
	f.beginLocked(c, "updating", c.status)
	c.shown = time.Now().Add(f.Hide)
	c.until = c.until.Add(f.Hide)
	return 202, map[string]any{"status": "in_progress", "correlation_id": "op-" + randomHex(4)}
}

func (h hardware) problem() map[string]any {
	switch {
	case !slices.ContainsFunc(fakeImages, func(name string) bool { return slug(name) == h.image }):
		return map[string]any{"error_code": "ERR-02-010", "message": "OS image not found", "request_id": "req-x"}
	case !slices.Contains(fakeTypes, h.instanceType):
		return map[string]any{"detail": "unknown instance type"}
	}
	return nil
}

func (f *Fake) power(w http.ResponseWriter, r *http.Request) {
	f.withCVM(func(c *fakeCVM, _ body) (int, any) {
		if c.target != "" {
			return 409, map[string]any{"detail": "another operation is in progress"}
		}
		switch r.PathValue("verb") {
		case "start":
			f.beginLocked(c, "starting", "running")
		case "restart":
			f.beginLocked(c, "restarting", "running")
		case "stop", "shutdown":
			f.beginLocked(c, "stopping", "stopped")
		default:
			return 404, map[string]any{"detail": "Not Found"}
		}
		return 200, map[string]any{"id": c.id, "name": c.name, "status": c.status}
	})(w, r)
}

func (f *Fake) remove(c *fakeCVM, _ body) (int, any) {
	f.beginLocked(c, "deleting", "deleted")
	return 204, nil
}
