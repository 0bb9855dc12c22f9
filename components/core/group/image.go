package group

import (
	"fmt"
	"strings"
)

// ServiceImage is the image of one service of a compose text.
type ServiceImage struct {
	Service string
	Image   string
	Line    int
}

// ComposeProblem is one reason why a compose text is not pinned. Line counts from 1; 0 means the
// whole text.
type ComposeProblem struct {
	Line    int
	Message string
}

// String is the problem with its line, if it has one.
func (p ComposeProblem) String() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Message)
}

// ComposeImages reads the services of a compose text and lists the reasons why the text is not
// pinned (threat row ATT-16): each service must name a literal image by digest, without a build
// section. It reads block-style YAML only and rejects other syntax, because an image that it
// overlooked would not be measured by content. Package cadre.dev/compose/lint parses the text fully
// and includes these problems. ComposeImages is the early check for packages that may import
// nothing.
func ComposeImages(compose string) (images []ServiceImage, problems []ComposeProblem) {
	s := composeScan{services: make(map[string]*serviceScan)}
	if problem := textProblem(compose); problem != nil {
		return nil, []ComposeProblem{*problem}
	}
	for i, line := range strings.Split(compose, "\n") {
		s.number = i + 1
		s.line(strings.TrimSuffix(line, "\r"))
	}
	s.endService()
	if len(s.services) == 0 && len(s.problems) == 0 {
		s.problems = append(s.problems, ComposeProblem{Message: "no service with an image was found under \"services:\""})
	}
	return s.images, s.problems
}

// textProblem refuses characters that two YAML readers could see differently.
func textProblem(compose string) *ComposeProblem {
	for i, r := range compose {
		switch {
		case r == '\n', r == '\t':
		case r == '\r' && i+1 < len(compose) && compose[i+1] == '\n':
		case r == '\uFEFF', r == '\u0085', r == '\u2028', r == '\u2029', r < ' ', r == 0x7f, r == '\uFFFD':
			return &ComposeProblem{
				Line:    1 + strings.Count(compose[:i], "\n"),
				Message: fmt.Sprintf("contains the control character %U at byte %d: write plain text with newlines", r, i),
			}
		}
	}
	return nil
}

// composeScan follows the indentation of a block-style document:
//
//	services:            depth 0, column 0
//	  web:               a service, at the column of the first one
//	    image: x@sha...  a key of it, at the column of its first key
//	      ...            anything deeper belongs to the key above
type composeScan struct {
	number   int
	section  string // top-level key in force
	sections map[string]bool
	// serviceColumn and keyColumn are -1 until the first line that sets them.
	serviceColumn, keyColumn int
	current                  *serviceScan
	services                 map[string]*serviceScan
	images                   []ServiceImage
	problems                 []ComposeProblem
}

type serviceScan struct {
	name  string
	line  int
	keys  map[string]bool
	last  string // key above, for continuation lines
	image string
	// refused: the service's own line is a problem, and its other lines would only repeat that.
	refused bool
}

func (s *composeScan) line(text string) {
	body := strings.TrimLeft(text, " ")
	column := len(text) - len(body)
	if strings.TrimSpace(body) == "" || strings.HasPrefix(body, "#") {
		return
	}
	switch {
	case column == 0:
		s.top(body)
	case s.section != "services":
		return // other sections hold no service
	case s.serviceColumn < 0 || column <= s.serviceColumn:
		s.service(column, body)
	case s.current == nil:
		s.refuse("is outside of any service")
	case s.current.refused:
	case s.keyColumn < 0 || column <= s.keyColumn:
		s.key(column, body)
	case s.current.last == "image":
		s.refuse("continues the image of the line above: write the image on one line")
	}
}

func (s *composeScan) top(body string) {
	if body == "---" && s.sections == nil {
		return
	}
	s.endService()
	s.section, s.serviceColumn, s.keyColumn = "", -1, -1
	key, value, ok := splitKey(body)
	switch {
	case strings.HasPrefix(body, "- ") || isCloser(body):
		if s.section = ""; s.sections == nil {
			s.refuse("is not a top-level key")
		}
		return
	case !ok:
		s.refuse("is not a plain \"key:\" line; write the compose file in block style, one document, without anchors as keys")
		return
	case s.sections[key]:
		s.refuse(fmt.Sprintf("repeats %q", key))
	case key == "include" || key == "<<":
		s.refuse(fmt.Sprintf("uses %q, which brings in services that are not in the text", key))
	case key == "services" && value != "" && !isAnchor(value):
		s.refuse("writes \"services\" on one line: write each service as a block")
	}
	if s.sections == nil {
		s.sections = make(map[string]bool)
	}
	s.sections[key] = true
	s.section = key
}

func (s *composeScan) service(column int, body string) {
	if s.current != nil && s.current.refused && isCloser(body) {
		return // the end of a service in brackets
	}
	s.endService()
	if s.serviceColumn >= 0 && column != s.serviceColumn {
		s.refuse("is indented unlike the services above")
		return
	}
	s.serviceColumn, s.keyColumn = column, -1
	name, value, ok := splitKey(body)
	s.current = &serviceScan{name: name, line: s.number, keys: make(map[string]bool), refused: true}
	switch {
	case !ok || name == "<<":
		s.refuse("is not a plain \"<service>:\" line")
		return
	case value != "" && !isAnchor(value):
		s.refuse(fmt.Sprintf("writes service %q on one line or by alias: write it as a block", name))
		return
	case s.services[name] != nil:
		s.refuse(fmt.Sprintf("repeats service %q", name))
		return
	}
	s.current.refused = false
	s.services[name] = s.current
}

func (s *composeScan) key(column int, body string) {
	svc := s.current
	if s.keyColumn >= 0 && column != s.keyColumn {
		s.refuse("is indented unlike the keys above")
		return
	}
	s.keyColumn = column
	if svc.last != "" && (body == "-" || strings.HasPrefix(body, "- ") || isCloser(body)) && svc.last != "image" {
		return // a list at the column of its key, or the end of a bracketed list
	}
	key, value, ok := splitKey(body)
	if !ok {
		s.refuse("is not a plain \"key:\" line")
		return
	}
	if svc.keys[key] {
		s.refuse(fmt.Sprintf("repeats %q of service %q", key, svc.name))
	}
	svc.keys[key], svc.last = true, key
	switch key {
	case "build":
		s.refuse(fmt.Sprintf("builds the image of service %q on the machine: name a pushed image by digest", svc.name))
	case "<<", "extends":
		s.refuse(fmt.Sprintf("merges other content into service %q with %q: write its keys out", svc.name, key))
	case "image":
		s.image(value)
	}
}

func (s *composeScan) image(value string) {
	name, ok := scalar(value)
	if !ok {
		s.refuse(fmt.Sprintf("the image of service %q is not one plain word", s.current.name))
		return
	}
	if problem := ImageProblem(name); problem != "" {
		s.refuse(fmt.Sprintf("the image %q of service %q %s", name, s.current.name, problem))
		return
	}
	s.current.image = name
	s.images = append(s.images, ServiceImage{Service: s.current.name, Image: name, Line: s.number})
}

func (s *composeScan) endService() {
	// The line of a merge key is rejected itself, and the merged part may hold the image.
	if svc := s.current; svc != nil && !svc.refused && !svc.keys["image"] && !svc.keys["build"] && !svc.keys["<<"] && !svc.keys["extends"] {
		s.problems = append(s.problems, ComposeProblem{svc.line, fmt.Sprintf("service %q names no image", svc.name)})
	}
	s.current = nil
}

func (s *composeScan) refuse(problem string) {
	s.problems = append(s.problems, ComposeProblem{s.number, problem})
}

// ImageProblem reports why an image reference could name other content tomorrow, "" if it could
// not. The reference must be literal and carry a digest; a tag in addition is fine.
func ImageProblem(image string) string {
	if strings.Contains(image, "$") {
		return "contains a variable: write it out"
	}
	name, digest, found := strings.Cut(image, "@sha256:")
	switch {
	case !found:
		return "is not pinned: append @sha256:<64 hex digits>"
	case !isHex(digest, 64):
		return "has a digest that is not 64 lower-case hex digits"
	case !isPlainWord(name, 255) || strings.ContainsAny(name, "@{}[],&*!|>%#"):
		return "has a name that is not a plain image name"
	}
	return ""
}

// isAnchor reports a value that only gives the block below it a name, such as "&member".
func isAnchor(value string) bool {
	word, rest, _ := strings.Cut(value, " ")
	name, ok := strings.CutPrefix(word, "&")
	rest = strings.TrimSpace(rest)
	return ok && isKeyWord(name) && (rest == "" || rest[0] == '#')
}

// splitKey reads `key: value` with a plain or simply quoted key. A comment is
// dropped from an otherwise empty value.
func splitKey(body string) (key, value string, ok bool) {
	switch body[0] {
	case '"', '\'':
		end := strings.IndexByte(body[1:], body[0])
		if end < 0 || strings.ContainsRune(body[1:1+end], '\\') {
			return "", "", false
		}
		key, value = body[1:1+end], strings.TrimLeft(body[2+end:], " ")
		if !strings.HasPrefix(value, ":") {
			return "", "", false
		}
		value = value[1:]
	default:
		if key, value, ok = strings.Cut(body, ":"); !ok {
			return "", "", false
		}
		key = strings.TrimRight(key, " ")
	}
	if key != "<<" && !isKeyWord(key) || value != "" && value[0] != ' ' {
		return "", "", false
	}
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "#") {
		value = ""
	}
	return key, value, true
}

// isKeyWord reports letters, digits, '_', '.', '-' only.
func isKeyWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.':
		case c == '-' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// scalar reads a one-word value, plain or quoted, with an optional comment.
func scalar(value string) (string, bool) {
	if value == "" {
		return "", false
	}
	word, rest := value, ""
	if quote := value[0]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(value[1:], quote)
		if end < 0 {
			return "", false
		}
		word, rest = value[1:1+end], value[2+end:]
	} else if i := strings.IndexAny(value, " \t"); i >= 0 {
		word, rest = value[:i], value[i:]
	}
	rest = strings.TrimLeft(rest, " \t")
	if rest != "" && rest[0] != '#' {
		return "", false
	}
	return word, word != "" && !strings.ContainsRune(word, '\\')
}

// isCloser reports a line that only closes brackets.
func isCloser(body string) bool {
	return strings.Trim(strings.TrimSpace(body), "]},") == ""
}
