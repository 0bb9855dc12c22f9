package attestsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
)

type quoteRequest struct {
	ReportData hexBytes `json:"report_data"`
}

// data is the report data, with zeros up to its full length.
func (r quoteRequest) data() (data [64]byte, err error) {
	if len(r.ReportData) > len(data) {
		return data, agentError("Report data is too long")
	}
	copy(data[:], r.ReportData)
	return data, nil
}

type quoteReply struct {
	Quote      hexBytes `json:"quote"`
	EventLog   string   `json:"event_log"`
	ReportData hexBytes `json:"report_data"`
	VMConfig   string   `json:"vm_config"`
}

func (g *Guest) getQuote(request quoteRequest) (quoteReply, error) {
	data, err := request.data()
	if err != nil {
		return quoteReply{}, err
	}
	quote, events, err := g.shownQuote(data)
	if err != nil {
		return quoteReply{}, err
	}
	style := event.wire
	if g.version.atLeast(0, 5, 6) {
		style = event.stripped
	}
	log, err := logText(events, style)
	if err != nil {
		return quoteReply{}, err
	}
	config, err := g.vmConfig()
	if err != nil {
		return quoteReply{}, err
	}
	return quoteReply{Quote: quote, EventLog: log, ReportData: data[:], VMConfig: config}, nil
}

// shownQuote is a quote over data with the log as callers see it. Callers have one at a time.
func (g *Guest) shownQuote(data [64]byte) ([]byte, []event, error) {
	g.quoting.Lock()
	defer g.quoting.Unlock()
	if g.failsNow() {
		return nil, nil, agentError("Failed to get quote")
	}
	quote, events, err := g.quote(data)
	return quote, g.tamper(events), err
}

func (g *Guest) failsNow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failedCalls >= g.faults.FailQuotes {
		return false
	}
	g.failedCalls++
	return true
}

// quote signs the present registers, and returns the log that explains them.
func (g *Guest) quote(data [64]byte) ([]byte, []event, error) {
	g.mu.Lock()
	report := g.report
	report.RTMR[3] = g.rtmr3
	report.ReportData = data
	events := g.events[:len(g.events):len(g.events)]
	first := g.firstQuote
	g.mu.Unlock()

	if g.faults.ReplayQuote && first != nil {
		return first, events, nil
	}
	quote, err := g.host.quote(report, RealQE())
	if err != nil {
		return nil, nil, err
	}
	// Real agents answer with a buffer of fixed size, padded with zeros.
	quote = append(quote, make([]byte, 70)...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.firstQuote == nil {
		g.firstQuote = quote
	}
	return quote, events, nil
}

// tamper shows another instance than was measured, if the fault is on.
func (g *Guest) tamper(events []event) []event {
	if !g.faults.TamperLog {
		return events
	}
	changed := append([]event(nil), events...)
	for i, ev := range changed {
		if ev.Name == "instance-id" {
			changed[i] = newRuntimeEvent(ev.Name, bytes.Repeat([]byte{0xee}, 20))
		}
	}
	return changed
}

// vmConfig is the host's description of the machine, which is not trustworthy.
func (g *Guest) vmConfig() (string, error) {
	text, err := json.Marshal(map[string]any{
		"spec_version":               1,
		"os_image_hash":              hexOf(g.image.hash[:]),
		"cpu_count":                  g.image.shape.VCPU,
		"memory_size":                int64(g.image.shape.MemoryMB) << 20,
		"qemu_single_pass_add_pages": false,
		"pic":                        false,
		"qemu_version":               "9.2.1",
		"pci_hole64_size":            0,
		"hugepages":                  false,
		"num_gpus":                   0,
		"num_nvswitches":             0,
		"hotplug_off":                false,
		"image":                      g.image.name,
	})
	return string(text), err
}

type eventRequest struct {
	Event   string   `json:"event"`
	Payload hexBytes `json:"payload"`
}

// emitEvent extends RTMR3. It accepts any name, boot names too, and cannot be undone.
func (g *Guest) emitEvent(request eventRequest) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.emit(request.Event, request.Payload)
	return nil, nil
}

type versionReply struct {
	Version string `json:"version"`
	Rev     string `json:"rev"`
}

func (g *Guest) getVersion(struct{}) (versionReply, error) {
	return versionReply{Version: g.version.String(), Rev: "simulated"}, nil
}

type gpuReply struct {
	Attestation string `json:"attestation"`
}

// gpuInfo is empty, as in every guest without a GPU.
func (g *Guest) gpuInfo(struct{}) (gpuReply, error) { return gpuReply{}, nil }

type attestReply struct {
	Attestation hexBytes `json:"attestation"`
}

func (g *Guest) attest(request quoteRequest) (attestReply, error) {
	data, err := request.data()
	if err != nil {
		return attestReply{}, err
	}
	out, err := g.attestation(data, false)
	return attestReply{out}, err
}

type infoReply struct {
	AppID           hexBytes `json:"app_id"`
	InstanceID      hexBytes `json:"instance_id"`
	AppCert         string   `json:"app_cert"`
	TCBInfo         string   `json:"tcb_info"`
	AppName         string   `json:"app_name"`
	DeviceID        hexBytes `json:"device_id"`
	MRAggregated    hexBytes `json:"mr_aggregated"`
	OSImageHash     hexBytes `json:"os_image_hash"`
	KeyProviderInfo string   `json:"key_provider_info"`
	ComposeHash     hexBytes `json:"compose_hash"`
	VMConfig        string   `json:"vm_config"`
	CloudVendor     string   `json:"cloud_vendor"`
	CloudProduct    string   `json:"cloud_product"`
}

type tcbInfo struct {
	MRTD         hexBytes    `json:"mrtd"`
	RTMR0        hexBytes    `json:"rtmr0"`
	RTMR1        hexBytes    `json:"rtmr1"`
	RTMR2        hexBytes    `json:"rtmr2"`
	RTMR3        hexBytes    `json:"rtmr3"`
	MRAggregated hexBytes    `json:"mr_aggregated"`
	OSImageHash  hexBytes    `json:"os_image_hash"`
	ComposeHash  hexBytes    `json:"compose_hash"`
	DeviceID     hexBytes    `json:"device_id"`
	EventLog     []wireEvent `json:"event_log"`
	AppCompose   string      `json:"app_compose"`
}

func (g *Guest) info(struct{}) (infoReply, error) {
	g.mu.Lock()
	report := g.report
	report.RTMR[3] = g.rtmr3
	events := g.events[:len(g.events):len(g.events)]
	g.mu.Unlock()

	tcb := tcbInfo{
		MRTD: report.MRTD[:], RTMR0: report.RTMR[0][:], RTMR1: report.RTMR[1][:],
		RTMR2: report.RTMR[2][:], RTMR3: report.RTMR[3][:],
		MRAggregated: report.aggregated(),
		OSImageHash:  g.image.hash[:],
		ComposeHash:  g.composeHash[:],
		DeviceID:     g.deviceID(),
		AppCompose:   string(g.appCompose),
	}
	for _, ev := range events {
		tcb.EventLog = append(tcb.EventLog, ev.wire())
	}
	tcbText, err := json.Marshal(tcb)
	if err != nil {
		return infoReply{}, err
	}
	config, err := g.vmConfig()
	if err != nil {
		return infoReply{}, err
	}
	return infoReply{
		AppID: g.appID, InstanceID: g.instanceID, AppCert: g.appCA.pem, TCBInfo: string(tcbText),
		AppName: g.appName, DeviceID: tcb.DeviceID, MRAggregated: tcb.MRAggregated,
		OSImageHash: tcb.OSImageHash, KeyProviderInfo: g.keyProvider, ComposeHash: tcb.ComposeHash,
		VMConfig: config, CloudVendor: "Cadre", CloudProduct: "simulated",
	}, nil
}

// aggregated is mr_aggregated: the registers, and the configuration ids if one
// of them is set.
func (r Report) aggregated() []byte {
	b := append([]byte(nil), r.MRTD[:]...)
	for _, rtmr := range r.RTMR {
		b = append(b, rtmr[:]...)
	}
	if r.MRConfigID != [48]byte{} || r.MROwner != [48]byte{} || r.MROwnerConfig != [48]byte{} {
		b = append(b, r.MRConfigID[:]...)
		b = append(b, r.MROwner[:]...)
		b = append(b, r.MROwnerConfig[:]...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// deviceID has dstack's quirks: from the quote header up to 0.5.5, then the hash
// of nothing, and only after 0.5.11 the hash of the PPID.
func (g *Guest) deviceID() []byte {
	input := g.host.ppid
	switch {
	case !g.version.atLeast(0, 5, 6):
		input = g.host.userData
	case !g.version.atLeast(0, 5, 12):
		input = nil
	}
	sum := sha256.Sum256(input)
	return sum[:]
}
