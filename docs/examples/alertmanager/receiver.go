// Command receiver closes a gate of Cadre while an alert fires, and opens the gate when the alert is
// resolved. It takes Alertmanager's webhook messages (version 4) and calls `cadre gate serve`, with the
// token that Alertmanager sends. README.md has both configurations.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"regexp"
	"time"
)

// message is the part of Alertmanager's webhook message that counts. Status is "firing" while one
// alert of the group fires.
type message struct {
	Version, Status, ExternalURL string
	GroupLabels, CommonLabels    map[string]string
}

var gateForm = regexp.MustCompile(`^[a-z][a-z0-9-]*/[a-z][a-z0-9-]*$`)

func main() {
	listen := flag.String("listen", "127.0.0.1:9466", "address for Alertmanager")
	gates := flag.String("gates", "http://127.0.0.1:9465/v1/gates", "address of cadre gate serve")
	length := flag.String("for", "5h", "end of a setting without another message: more than repeat_interval")
	flag.Parse()
	client := http.Client{Timeout: 20 * time.Second}
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&m); err != nil || m.Version != "4" {
			http.Error(w, fmt.Sprintf("want a webhook message of version 4: version %q, %v", m.Version, err), http.StatusBadRequest)
			return
		}
		gate := m.GroupLabels["gate"]
		if !gateForm.MatchString(gate) {
			http.Error(w, fmt.Sprintf("label gate is %.80q: want GROUP/GATE, and group_by with gate alone", gate), http.StatusBadRequest)
			return
		}
		setting := map[string]string{"state": "open", "reason": "no alert fires: " + m.ExternalURL}
		if m.Status != "resolved" {
			setting = map[string]string{"state": "closed", "for": *length, "reason": fmt.Sprintf("alert %s fires: %s", m.CommonLabels["alertname"], m.ExternalURL)}
		}
		body, _ := json.Marshal(setting)
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, *gates+"/"+gate, bytes.NewReader(body))
		if err != nil {
			log.Fatalf("-gates: %v", err)
		}
		req.Header.Set("Authorization", r.Header.Get("Authorization"))
		reply, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway) // Alertmanager retries a status of 5xx
			return
		}
		defer reply.Body.Close()
		w.WriteHeader(reply.StatusCode)
		_, _ = io.Copy(w, reply.Body)
		log.Printf("gate %s: %s: %s", gate, setting["state"], reply.Status)
	})
	log.Printf("listening at %s", *listen)
	log.Fatal((&http.Server{Addr: *listen, ReadTimeout: 10 * time.Second}).ListenAndServe())
}
