package doctor

import "strings"

// Check is the subject of a finding. Its values are stable.
type Check string

// Text returns a check in words.
func (c Check) Text() string { return strings.ReplaceAll(string(c), "_", " ") }

// The subjects of findings, each in the file of its subject.
const (
	AlertsCheck        Check = "alerts"
	BindingsCheck      Check = "bindings"
	BrokerCheck        Check = "broker"
	ClockCheck         Check = "clock"
	ConfigurationCheck Check = "configuration"
	DeadLettersCheck   Check = "dead_letters"
	DelaysCheck        Check = "delays"
	FilesCheck         Check = "files"
	IndicesCheck       Check = "indices"
	KeysCheck          Check = "keys"
	LagCheck           Check = "lag"
	LeftoversCheck     Check = "leftovers"
	ManagementCheck    Check = "management"
	OrderCheck         Check = "order"
	PausedCheck        Check = "paused"
	PermissionsCheck   Check = "permissions"
	QuarantineCheck    Check = "quarantine"
	ReturnsCheck       Check = "returns"
	RightsCheck        Check = "rights"
	RolesCheck         Check = "roles"
	RoutesCheck        Check = "routes"
	SecretsCheck       Check = "secrets"
	ServeCheck         Check = "serve"
	StoreCheck         Check = "store"
	SubscriptionsCheck Check = "subscriptions"
	TapCheck           Check = "tap"
	TemplatesCheck     Check = "templates"
	TopologyCheck      Check = "topology"
	TrustCheck         Check = "trust"
	VersionCheck       Check = "version"
	WatermarksCheck    Check = "watermarks"
)
