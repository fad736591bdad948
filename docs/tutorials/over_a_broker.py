# %% [markdown]
# # Three owners over a broker
#
# placeholder
