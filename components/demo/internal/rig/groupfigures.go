package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// coordinatorFigures is where a coordinator serves its figures, to its own CVM alone.
const coordinatorFigures = "http://127.0.0.1:7070/metrics"

// GroupFigures are the metrics of a group that the coordinators' leader serves: values by their
// name and labels in Prometheus' text, such as `cadre_group_slots{group="etcd",state="Available"}`.
func (r *Rig) GroupFigures(ctx context.Context, group string) (map[string]float64, error) {
	problems := []error{errors.New("no coordinator says that it leads")}
	for n := range Coordinators {
		all, err := r.figuresOf(ctx, fmt.Sprintf("coordinator-%d", n))
		if err != nil || all["cadre_leader"] != 1 {
			problems = append(problems, err)
			continue
		}
		of := map[string]float64{}
		for name, value := range all {
			if strings.HasPrefix(name, "cadre_group_") && strings.Contains(name, `group="`+group+`"`) {
				of[name] = value
			}
		}
		return of, nil
	}
	return nil, errors.Join(problems...)
}

// figuresOf are all that one coordinator serves.
func (r *Rig) figuresOf(ctx context.Context, coordinator string) (map[string]float64, error) {
	process, err := r.coordinatorProcess(coordinator)
	if err != nil {
		return nil, err
	}
	network, err := os.Open(filepath.Join(process, "ns/net"))
	if err != nil {
		return nil, fmt.Errorf("find the network of %s: %w", coordinator, err)
	}
	within := &inside{network: network}
	defer within.close()
	transport := &http.Transport{DialContext: within.dial}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, coordinatorFigures, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its figures: %w", coordinator, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return nil, fmt.Errorf("%s serves no figures: %s: %s", coordinator, answer.Status, text)
	}
	all := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		if all[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("%s serves %q: %w", coordinator, line, err)
		}
	}
	return all, lines.Err()
}
