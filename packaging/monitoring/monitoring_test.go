package monitoring_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// tool returns the path of a program of Prometheus. Without it, the test is skipped, but not in CI.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v, and CI=true: install it", err)
	}
	if err != nil {
		t.Skipf("%v: install Prometheus to run this test", err)
	}
	return path
}

func TestTheAlertsFireAsTheirTestsSay(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, arguments := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command(promtool, arguments...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "SUCCESS")
	}
}

// rules returns the alerts.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func TestEveryAlertIsTestedAndHasARunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	sections := docs.Sections(string(page))
	for _, r := range rules(t) {
		at, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		assert.Equal(t, "https://github.com/redquorum/redquorum/blob/main/docs/operations.md", at, r.Alert)
		assert.NotEmpty(t, sections[anchor], "%s: nothing stands below #%s", r.Alert, anchor)
		assert.Contains(t, string(tests), `alertname="`+r.Alert+`"`)
		assert.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
	}
}

// board is what Grafana reads of a dashboard, as far as it asks Prometheus.
type board struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

// queries returns those of the dashboard, and of which panel each is.
func queries(t *testing.T) (exprs, titles []string) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var b board
	require.NoError(t, json.Unmarshal(text, &b))
	// As Grafana fills in the variables when all jobs are chosen.
	fill := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*")
	for _, panel := range b.Panels {
		for _, target := range panel.Targets {
			exprs, titles = append(exprs, fill.Replace(target.Expr)), append(titles, panel.Title)
		}
	}
	values := regexp.MustCompile(`^label_values\((\w+), \w+\)$`)
	for _, variable := range b.Templating.List {
		if variable.Type == "query" {
			require.Regexp(t, values, variable.Query)
			exprs, titles = append(exprs, values.FindStringSubmatch(variable.Query)[1]), append(titles, "$"+variable.Name)
		}
	}
	assert.GreaterOrEqual(t, len(exprs), 25)
	return exprs, titles
}

var metricName = regexp.MustCompile(`\bredquorum_\w+`)

// Two programs share three masters, and a real Prometheus looks at both.
func TestTheDashboardsQueriesReturnDataAndTheAlertsAreOfRealFigures(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	job := func(name string, targets ...string) map[string]any {
		return map[string]any{"job_name": name, "static_configs": []any{map[string]any{"targets": targets}}}
	}
	open := func(*http.Request) (string, bool) { return "", true }
	p := startPrometheus(t, map[string]any{"scrape_configs": []any{
		job("shop", program(t, masters), program(t, masters)), job("serve", page(t, masters, open)),
	}})
	exprs, titles := queries(t)
	for i, expr := range exprs {
		cluster.Eventually(t, time.Minute, func() string {
			if found := p.query(expr); len(found) == 0 {
				return fmt.Sprintf("data for %q: %s", titles[i], expr)
			}
			return ""
		})
		assert.NotContains(t, expr, "$", titles[i])
	}
	for _, r := range rules(t) {
		for _, metric := range metricName.FindAllString(r.Expr, -1) {
			assert.NotEmpty(t, p.query(metric), "%s: there is no such figure", r.Alert)
		}
	}
	p.requireRules(len(rules(t)))
	// Both programs tell of the same three masters.
	assert.Equal(t, []string{"3"}, p.query(`max by (job) (sum without (node) (redquorum_node_votes{job="shop"}))`))
	assert.Equal(t, []string{"6"}, p.query(`count by (job) (redquorum_node_votes{job="shop"})`))
	assert.Empty(t, p.query(`ALERTS{alertname=~".*Quorum|.*Vote|.*Spare"}`))
}

// The page asks for a login, and Prometheus has one.
func TestWhatIsScrapedIsThere(t *testing.T) {
	out, err := exec.Command(tool(t, "promtool"), "check", "config", "scrape.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile("scrape.yml")
	require.NoError(t, err)
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("sesame\n"), 0o600))
	masters := redlocktest.Start(t, 3)
	login := func(r *http.Request) (string, bool) {
		name, given, _ := r.BasicAuth()
		return name, name == "prometheus" && given == "sesame"
	}
	filled := strings.NewReplacer("[app-1:9100, app-2:9100]", "["+program(t, masters)+"]", "[ops-1:8700]", "["+page(t, masters, login)+"]",
		"/etc/prometheus/redlock-password", password).Replace(string(text))
	var settings map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(filled), &settings))
	assert.Equal(t, []any{"alerts.yml"}, settings["rule_files"])
	p := startPrometheus(t, settings)
	for job, metric := range map[string]string{"shop": "redquorum_locks_acquired_total", "redlock-serve": "redquorum_serve_locks"} {
		cluster.Eventually(t, time.Minute, func() string {
			if found := p.query(metric + `{job="` + job + `"}`); len(found) == 0 {
				return job + " tells " + metric
			}
			return ""
		})
	}
}

// page serves that of the masters, and returns its address.
func page(t *testing.T, masters *redlocktest.Cluster, login func(*http.Request) (string, bool)) (address string) {
	t.Helper()
	page, err := dashboard.New(t.Context(), masters.Endpoints(), dashboard.WithLogin(login))
	require.NoError(t, err)
	t.Cleanup(page.Close)
	return serve(t, page)
}

// serve serves until the test ends, and returns its address.
func serve(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	listener, err := redistest.Listen()
	require.NoError(t, err)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// program is one that works, until the test ends, beside others for the same locks, and tells
// Prometheus. It returns its address.
func program(t *testing.T, masters *redlocktest.Cluster) (address string) {
	t.Helper()
	histograms := redprometheus.NewHistograms(redprometheus.WithNames(2, nil))
	locker := masters.Locker(t, redlock.WithHooks(histograms.Hooks(redlock.Hooks{})))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(redprometheus.NewCollector(locker), histograms)
	address = serve(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			lock, err := locker.Lock(t.Context(), "orders", redlock.WithFencing())
			if err == nil {
				time.Sleep(5 * time.Millisecond)
				err = lock.Unlock(t.Context())
			}
			if err != nil {
				return // the test is over
			}
		}
	}()
	t.Cleanup(func() { <-ended })
	return address
}

// server is a Prometheus.
type server struct {
	t       *testing.T
	address string
}

// startPrometheus starts one with this configuration, in a hurry, and with the alerts.
func startPrometheus(t *testing.T, settings map[string]any) server {
	t.Helper()
	alerts, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	settings["global"] = map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
	settings["rule_files"] = []string{alerts}
	config, err := yaml.Marshal(settings)
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	s := server{t, redistest.FreeAddr(t)}
	command := exec.Command(tool(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.address, "--log.level=warn")
	command.Stderr = io.Discard
	child.Start(t, command)
	host, _, err := net.SplitHostPort(s.address)
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback())
	cluster.Eventually(t, time.Minute, func() string {
		response, err := http.Get("http://" + s.address + "/-/ready")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
	return s
}

// get reads the data of an answer.
func (s server) get(path string, parameters url.Values, data any) {
	s.t.Helper()
	response, err := http.Get("http://" + s.address + path + "?" + parameters.Encode())
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(s.t, "success", answer.Status, "%s: %v", answer.Error, parameters)
}

// query returns the values of a vector, sorted.
func (s server) query(expr string) (values []string) {
	s.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	s.get("/api/v1/query", url.Values{"query": {expr}}, &data)
	for _, sample := range data.Result {
		values = append(values, sample.Value[1].(string))
	}
	slices.Sort(values)
	return values
}

// requireRules requires that so many alerts are evaluated without an error.
func (s server) requireRules(n int) {
	s.t.Helper()
	cluster.Eventually(s.t, time.Minute, func() string {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		s.get("/api/v1/rules", nil, &data)
		healthy, wrong := 0, ""
		for _, group := range data.Groups {
			for _, r := range group.Rules {
				if r.Health == "ok" {
					healthy++
				} else {
					wrong += r.Name + ": " + r.Health + " " + r.LastError + "\n"
				}
			}
		}
		if healthy == n {
			return ""
		}
		return fmt.Sprintf("%d healthy rules: %s", n, wrong)
	})
}
