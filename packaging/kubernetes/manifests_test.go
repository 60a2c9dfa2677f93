// Package kubernetes_test looks at the manifests, and plays their rollout on local servers.
package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

// variants are the folders for `kubectl apply -k`.
var variants = []string{"durable", "ephemeral"}

// build returns what `kubectl kustomize` prints.
func build(t *testing.T, variant string) []byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), variant)
	require.NoError(t, err)
	text, err := resources.AsYaml()
	require.NoError(t, err)
	return text
}

// apis is a module that has what a Kubernetes says of its API, and where.
const (
	apis       = "sigs.k8s.io/kubectl-validate@v0.0.4"
	kubernetes = "pkg/openapiclient/builtins/1.30"
)

var kinds = []string{"configmap", "deployment", "namespace", "networkpolicy", "poddisruptionbudget", "service", "statefulset"}

// schemas writes a JSON schema for each kind, in which nothing but its fields is allowed.
func schemas(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	download := exec.Command("go", "mod", "download", "-json", apis)
	download.Dir = folder // no module: nothing of this one changes
	out, err := download.Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	for _, api := range []string{"api/v1", "apis/apps/v1", "apis/networking.k8s.io/v1", "apis/policy/v1"} {
		text, err := os.ReadFile(filepath.Join(module.Dir, kubernetes, api+".json"))
		require.NoError(t, err)
		var file struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			}
		}
		require.NoError(t, json.Unmarshal(text, &file))
		for _, schema := range file.Components.Schemas {
			if _, object := schema["properties"]; object {
				schema["additionalProperties"] = false
			}
		}
		for name := range file.Components.Schemas {
			kind := strings.ToLower(name[strings.LastIndex(name, ".")+1:])
			if !slices.Contains(kinds, kind) {
				continue
			}
			schema, err := json.Marshal(map[string]any{"$ref": "#/components/schemas/" + name, "components": file.Components})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(folder, kind+".json"), schema, 0o600))
		}
	}
	return folder
}

func TestTheManifestsAreWhatKubernetesTakes(t *testing.T) {
	check, err := validator.New([]string{filepath.Join(schemas(t), "{{.ResourceKind}}.json")}, validator.Opts{Strict: true})
	require.NoError(t, err)
	wrong := func(text []byte) (problems []string, valid int) {
		for _, result := range check.Validate("manifests.yaml", io.NopCloser(bytes.NewReader(text))) {
			if result.Status == validator.Valid {
				valid++
			} else {
				problems = append(problems, fmt.Sprint(result.Resource.Path, result.Err, result.ValidationErrors))
			}
		}
		return problems, valid
	}
	for _, variant := range variants {
		problems, valid := wrong(build(t, variant))
		assert.Empty(t, problems, variant)
		assert.Equal(t, 8, valid, variant)
	}
	good := string(build(t, "durable"))
	for from, to := range map[string]string{"minReadySeconds: ": "minReadySecond: ", "serviceName: redlock-masters\n": "replicas: 3\n", "replicas: 3": "replicas: three"} {
		require.Contains(t, good, from)
		problems, _ := wrong([]byte(strings.Replace(good, from, to, 1)))
		assert.Len(t, problems, 1, "%q instead of %q", to, from)
	}
}

type labels map[string]string

// object is the fields of all kinds that the tests look at. That there are no others is checked
// above.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels labels
	}
	Data map[string]string
	Spec struct {
		ServiceName, PodManagementPolicy, ClusterIP string
		Replicas, MinReadySeconds, MaxUnavailable   int
		PublishNotReadyAddresses                    bool
		UpdateStrategy                              struct {
			Type          string
			RollingUpdate any
		}
		Selector             map[string]any // of a Service, the labels themselves
		PodSelector          struct{ MatchLabels labels }
		VolumeClaimTemplates []any
		Ingress              []struct {
			From []struct{ PodSelector struct{ MatchLabels labels } }
		}
		Egress   []any
		Template struct {
			Metadata struct{ Labels labels }
			Spec     struct {
				TopologySpreadConstraints []struct {
					TopologyKey, WhenUnsatisfiable string
					MaxSkew                        int
					LabelSelector                  struct{ MatchLabels labels }
				}
				Affinity struct {
					PodAntiAffinity struct {
						RequiredDuringSchedulingIgnoredDuringExecution []struct {
							TopologyKey   string
							LabelSelector struct{ MatchLabels labels }
						}
					}
				}
				Containers []container
				Volumes    []struct {
					Name      string
					Secret    struct{ SecretName string }
					Projected struct {
						Sources []struct{ ConfigMap, Secret struct{ Name string } }
					}
					EmptyDir any
				}
			}
		}
	}
}

type container struct {
	Image                                       string
	Command, Args                               []string
	Env                                         []variable
	StartupProbe, ReadinessProbe, LivenessProbe struct {
		InitialDelaySeconds int
		Exec                struct{ Command []string }
	}
	Resources struct{ Limits map[string]string }
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct{ Name, Key string }
	}
}

// selects reports whether an object is for the pods with these labels.
func (o *object) selects(pods labels) bool {
	want, deep := o.Spec.Selector["matchLabels"].(map[string]any)
	if !deep {
		want = o.Spec.Selector
	}
	for key, value := range want {
		if pods[key] != value {
			return false
		}
	}
	return len(want) > 0
}

// kit is the objects of a variant.
type kit struct {
	all                   []object
	masters, serve        object
	master, page          container
	service, budget, gate object
	conf                  string
}

func load(t *testing.T, variant string) (k kit) {
	t.Helper()
	for text := range strings.SplitSeq(string(build(t, variant)), "\n---\n") {
		var one object
		require.NoError(t, yaml.Unmarshal([]byte(text), &one), text)
		k.all = append(k.all, one)
		switch one.Kind {
		case "StatefulSet":
			k.masters, k.master = one, one.Spec.Template.Spec.Containers[0]
		case "Deployment":
			k.serve, k.page = one, one.Spec.Template.Spec.Containers[0]
		case "PodDisruptionBudget":
			k.budget = one
		case "NetworkPolicy":
			k.gate = one
		case "ConfigMap":
			k.conf = one.Data["valkey.conf"]
		}
	}
	i := slices.IndexFunc(k.all, func(o object) bool { return o.Kind == "Service" && o.Metadata.Name == k.masters.Spec.ServiceName })
	require.GreaterOrEqual(t, i, 0, "the Service of the StatefulSet")
	k.service = k.all[i]
	return k
}

// maxTTL is that of the cluster.
func (k kit) maxTTL(t *testing.T) time.Duration {
	t.Helper()
	for _, arg := range k.page.Args {
		if text, is := strings.CutPrefix(arg, "--max-ttl="); is {
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			return d
		}
	}
	require.Fail(t, "no --max-ttl")
	return 0
}

// pause is how long after a new pod the next one may go, if it takes no time to start.
func (k kit) pause() time.Duration {
	return time.Duration(k.master.ReadinessProbe.InitialDelaySeconds+k.masters.Spec.MinReadySeconds) * time.Second
}

// endpoints are those in REDLOCK_NODES, for another user whose password is known.
func (k kit) endpoints(t *testing.T, user, password, authority string) []string {
	t.Helper()
	i := slices.IndexFunc(k.page.Env, func(v variable) bool { return v.Name == "REDLOCK_NODES" })
	require.GreaterOrEqual(t, i, 0)
	fill := strings.NewReplacer("operator:$(PASSWORD)@", user+":"+password+"@", "/etc/redlock/ca.crt", authority, " ", "")
	return strings.Split(fill.Replace(k.page.Env[i].Value), ",")
}

func TestTheMastersAreConfiguredAsTheyMustBe(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			k := load(t, variant)
			spec, pods := k.masters.Spec, k.masters.Spec.Template.Metadata.Labels
			// One at a time, and none before the last one has its vote.
			assert.Equal(t, 3, spec.Replicas)
			assert.Equal(t, "OrderedReady", spec.PodManagementPolicy)
			assert.Equal(t, "RollingUpdate", spec.UpdateStrategy.Type)
			assert.Nil(t, spec.UpdateStrategy.RollingUpdate)
			assert.Greater(t, time.Duration(spec.MinReadySeconds)*time.Second, k.maxTTL(t), "a rollout goes on while a master has no vote")
			if spec.VolumeClaimTemplates == nil {
				delay := time.Duration(k.master.ReadinessProbe.InitialDelaySeconds) * time.Second
				assert.Greater(t, delay, k.maxTTL(t), "a drain goes on while a master has no vote")
			}
			assert.Equal(t, 1, k.budget.Spec.MaxUnavailable)
			for _, one := range []object{k.masters, k.budget, k.service} {
				assert.True(t, one.selects(pods), one.Kind)
			}
			// Apart from each other.
			spread := map[string]string{}
			for _, c := range spec.Template.Spec.TopologySpreadConstraints {
				assert.Equal(t, 1, c.MaxSkew)
				assert.Equal(t, pods, c.LabelSelector.MatchLabels)
				spread[c.TopologyKey] = c.WhenUnsatisfiable
			}
			assert.Equal(t, map[string]string{"topology.kubernetes.io/zone": "ScheduleAnyway"}, spread)
			// Never two on one host, also if there are fewer hosts than masters: a maxSkew of 1
			// would let the third one onto the first of two hosts.
			apart := spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			require.Len(t, apart, 1)
			assert.Equal(t, "kubernetes.io/hostname", apart[0].TopologyKey)
			assert.Equal(t, pods, apart[0].LabelSelector.MatchLabels)
			// Each has a name of its own, and nobody uses the Service's.
			assert.Equal(t, "None", k.service.Spec.ClusterIP)
			assert.True(t, k.service.Spec.PublishNotReadyAddresses)
			var names []string
			for i := range spec.Replicas {
				names = append(names, fmt.Sprintf("rediss://u:p@%s-%d.%s.redlock.svc:6379?cacert=ca", k.masters.Metadata.Name, i, spec.ServiceName))
			}
			assert.Equal(t, names, k.endpoints(t, "u", "p", "ca"))
			// Those who may reach them.
			assert.Equal(t, pods, k.gate.Spec.PodSelector.MatchLabels)
			assert.Empty(t, k.gate.Spec.Egress)
			assert.Subset(t, k.serve.Spec.Template.Metadata.Labels, k.gate.Spec.Ingress[0].From[0].PodSelector.MatchLabels)
		})
	}
}

// Every file that a container names comes from the Secrets that packaging/secrets makes.
func TestTheSecretsAreThoseOfTheScript(t *testing.T) {
	made := secrets(t)
	k := load(t, "durable")
	for _, c := range []struct {
		of     object
		one    container
		folder string
		secret string
	}{
		{k.masters, k.master, "masters", k.masters.Spec.Template.Spec.Volumes[0].Projected.Sources[1].Secret.Name},
		{k.serve, k.page, "operator", k.serve.Spec.Template.Spec.Volumes[0].Secret.SecretName},
	} {
		assert.Equal(t, "redlock-"+c.folder, c.secret)
		text := fmt.Sprint(c.one, k.conf)
		if c.folder != "masters" {
			text = fmt.Sprint(c.one)
		}
		named := file.FindAllStringSubmatch(text, -1)
		assert.NotEmpty(t, named)
		for _, name := range named {
			if name[1] != "valkey.conf" {
				assert.FileExists(t, filepath.Join(made, c.folder, name[1]))
			}
		}
	}
	for _, v := range k.page.Env {
		if ref := v.ValueFrom.SecretKeyRef; ref.Name != "" {
			assert.FileExists(t, filepath.Join(made, strings.TrimPrefix(ref.Name, "redlock-"), ref.Key))
		}
	}
}

var file = regexp.MustCompile(`/etc/redlock/([\w.]+)`)

// secrets runs the script for the names of the pods.
func secrets(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "made")
	out, err := exec.Command("sh", "../secrets", folder, "*.redlock-masters.redlock.svc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return folder
}

// rights returns what a user of users.acl may do.
func rights(t *testing.T, made, user string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(made, "masters", "users.acl"))
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "\nuser "+user+" on ")
	require.True(t, found)
	rule, _, _ = strings.Cut(rule, "\n")
	return strings.Fields(rule)[1:] // without the password
}

func TestTheUsersHaveTheRightsOfTheManual(t *testing.T) {
	made := secrets(t)
	manual := docs.ACLRule(t, "../..", "locks")[2:] // without "on" and the password
	assert.Equal(t, manual, rights(t, made, "locks"))
	assert.Equal(t, append(manual, "+scan", "+strlen"), rights(t, made, "operator"))
}
