package appcompose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"cadre.dev/core/strictjson"
)

// The rules of keys that guest images 0.6 and Phala's second form of the document have.

// gpuPolicy has the required value of each member: the value that permits least.
var gpuPolicy = map[string]string{"attest_gpu": "true", "allow_devtools": "false", "allow_debug": "false", "allow_insecure_boot": "false"}

var (
	osVersion  = regexp.MustCompile(`^[<>=^~0-9A-Za-z.,*+ -]{1,80}$`)
	hexDigest  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	saltForm   = regexp.MustCompile(`^[0-9A-Za-z_-]{1,128}$`)
	domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// requirements make the guest refuse to boot; none may take a check away.
func requirements(j *judge, k key, value json.RawMessage) {
	if version := string(bytes.TrimSpace(j.fields["manifest_version"])); version != `"3"` {
		j.add(k.name, "occurs in a document whose manifest_version is not \"3\", and a guest image 0.5 would ignore it", `write manifest_version "3"`)
	}
	for name, v := range j.object(k.name, value) {
		path := k.name + "." + name
		switch name {
		case "os_version":
			j.matches(path, v, osVersion, `write a condition such as ">=0.6.0"`)
		case "launch_token_hash":
			j.matches(path, v, hexDigest, "write 64 lower-case hex characters")
		case "platforms":
			var names []string
			if json.Unmarshal(v, &names) != nil || !slices.Contains(names, "tdx") {
				j.add(path, "is "+truncated(string(v))+", which does not name tdx", `write ["tdx"], or leave it out`)
			}
		case "tdx_measure_acpi_tables":
			if string(bytes.TrimSpace(v)) != "true" {
				j.add(path, "is "+truncated(string(v))+", must be true", "write true, or leave it out")
			}
		case "gpu_policy":
			for name, v := range j.object(path, v) {
				want, known := gpuPolicy[name]
				if text := string(bytes.TrimSpace(v)); !known {
					j.add(path+"."+name, "has settings that Cadre has not judged", "leave it out")
				} else if text != want {
					j.add(path+"."+name, fmt.Sprintf("is %s, must be %s", truncated(text), want), "leave it out")
				}
			}
		default:
			j.add(path, "is not on the list of keys that Cadre accepts", "leave it out")
		}
	}
}

// maxPorts bounds port_policy.
const maxPorts = 64

// portPolicy says which ports dstack's gateway forwards and where it sends a PROXY
// header. It can close ports, and opens none that are not open without it.
func portPolicy(j *judge, k key, value json.RawMessage) {
	for name, v := range j.object(k.name, value) {
		path := k.name + "." + name
		switch name {
		case "restrict_mode":
			literal("true", "false")(j, key{name: path, fix: "write true or false"}, v)
		case "ports":
			var ports []struct {
				Port *uint16 `json:"port"`
				PP   bool    `json:"pp"`
			}
			if err := strictjson.Unmarshal(v, &ports); err != nil || ports == nil || len(ports) > maxPorts {
				j.add(path, fmt.Sprintf("is not a list of at most %d entries with port and pp", maxPorts), `write [{"port":443,"pp":false}] for example`)
				continue
			}
			for i, p := range ports {
				if p.Port == nil || *p.Port == 0 {
					j.add(fmt.Sprintf("%s[%d].port", path, i), "is no port", "write a number from 1 to 65535")
				}
			}
		default:
			j.add(path, "is not on the list of keys that Cadre accepts", "leave it out")
		}
	}
}

// salt only makes the hash of the document another one.
func salt(j *judge, k key, value json.RawMessage) { j.matches(k.name, value, saltForm, k.fix) }

// gatewayDomain is read by the platform's pre-launch script, which the trust file names by
// its digest; a name of this form steers no shell.
func gatewayDomain(j *judge, k key, value json.RawMessage) {
	if len(value) > 255 {
		j.add(k.name, "is longer than a domain name", k.fix)
		return
	}
	j.matches(k.name, value, domainForm, k.fix)
}

// object is the members of value, nil with a problem where it is no object.
func (j *judge) object(path string, value json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		j.add(path, "is not an object", "write an object, or leave it out")
	}
	return members
}

// matches adds a problem unless value is a text of that form.
func (j *judge) matches(path string, value json.RawMessage, form *regexp.Regexp, fix string) {
	if text, ok := j.text(key{name: path, fix: fix}, value); ok && !form.MatchString(text) {
		j.add(path, fmt.Sprintf("is %.80q", text), fix)
	}
}
